"""The fixtures of `jobwire.testing` for every test, and how hard the property tests search."""

import ast
import functools
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

# Selenium brings trio, which hypothesis would load for no test of ours: it asks when it is imported.
os.environ.setdefault("HYPOTHESIS_NO_PLUGINS", "1")

from hypothesis import settings

from jobwire.testing.requirements import skip_here

pytest_plugins = ["jobwire.testing.fixtures"]

# No deadline: the time of a single example says something about the machine, nothing about the code.
# Quick: some new examples in every run; `make faults` searches.
settings.register_profile("quick", max_examples=6, deadline=None)
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile("thorough" if os.environ.get("JOBWIRE_FAULTS") == "long" else "quick")

# A shell that starts the tests in the background has them ignore SIGINT; what they start would inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# `nohup` does so with SIGHUP. Ours is still ignored; what is executed gets the default back.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

# Python 3.11 keeps one count of the depth for all threads that build a syntax tree, and ends with a
# SystemError where two do at once (gh-106905): a broker's thread logs a traceback while pytest reports.
_parse, _one_at_a_time = ast.parse, threading.RLock()


@functools.wraps(_parse)
def _parse_alone(*arguments: Any, **options: Any) -> Any:
    with _one_at_a_time:
        return _parse(*arguments, **options)


ast.parse = _parse_alone


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files whose tests may take longest, by their time limits: none is left for the end."""
    limits: dict[Any, float] = {}
    for item in items:
        mark = item.get_closest_marker("timeout")
        limits[item.path] = max(limits.get(item.path, 0.0), mark.args[0] if mark else 0.0)
    items.sort(key=lambda item: -limits[item.path])


@pytest.fixture(scope="session")
def java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Say that a test runs Spark, which needs Java; JVMs that live for seconds start quickly."""
    from jobwire.metrics.errors import JavaMissingError  # noqa: PLC0415 - most runs are without Spark
    from jobwire.testing.quick_spark import quick_java  # noqa: PLC0415 - as above

    cache = getattr(request.config, "cache", None)  # kept from run to run; `make clean` removes it
    folder = cache.mkdir("spark") if cache is not None else tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        try:
            patch.setenv("JDK_JAVA_OPTIONS", quick_java(folder))
            # Spark's Python workers have the environment in which this process's first JVM started.
            patch.setenv("JOBWIRE_KEYS_FILE", str(tmp_path_factory.mktemp("keys") / "keys.json"))
        except JavaMissingError as error:
            skip_here(str(error))
        yield
