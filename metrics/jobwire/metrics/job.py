r"""The program that Spark runs: as a child of `jobwire metrics`, or by spark-submit on a cluster.

spark-submit --master spark://HOST:7077 \
  --driver-java-options "$(python -m jobwire.metrics.job --java-options spark.log)" \
  "$(python -m jobwire.metrics.job --path)" run --home .hermes

It prints one JSON object a line: what it does, and at the end {"kind": "end", "exit_code": ...}.
"""

import argparse
import json
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jobwire.core.errors import JobwireError
from jobwire.core.exit_codes import ExitCode
from jobwire.metrics.arguments import add_run_arguments
from jobwire.metrics.driver import Driver
from jobwire.metrics.failures import failure_of, may_pass
from jobwire.metrics.session import QUICK_JAVA, java_options
from jobwire.metrics.settings import MetricsSettings, settings_of
from jobwire.storage.home import HELP, settle_home
from jobwire.storage.signals import stop_event

MODES = ("run", "once", "rebuild")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one mode to its end and return the exit code."""
    parser = argparse.ArgumentParser(prog="jobwire.metrics.job", description=__doc__)
    parser.add_argument("mode", choices=MODES, nargs="?", default="run")
    parser.add_argument(
        "--java-options", metavar="FILE", help="print the JVM's flags that keep its log in FILE, and exit"
    )
    parser.add_argument("--path", action="store_true", help="print this file's path and exit")
    parser.add_argument(
        "--settings", metavar="JSON", help="all settings at once (as the supervisor gives them)"
    )
    parser.add_argument("--home", metavar="DIR", help=HELP)
    add_run_arguments(parser)
    args = parser.parse_args(argv)
    if args.path:
        sys.stdout.write(f"{__file__}\n")
        return int(ExitCode.OK)
    if args.java_options is not None:
        sys.stdout.write(f"{java_options(Path(args.java_options).absolute())} {QUICK_JAVA}\n")
        return int(ExitCode.OK)
    report = _ReportWriter(child=args.settings is not None)
    with stop_event() as stop:
        try:
            _run(args, report, stop)
        except Exception as error:  # noqa: BLE001 - the one boundary: whatever it was becomes the last report
            return report.end(failure_of(error))
    return report.end(None)


def _run(args: argparse.Namespace, report: "_ReportWriter", stop: threading.Event) -> None:
    if args.settings is not None:
        threading.Thread(target=_stop_at_end_of_input, args=(stop,), daemon=True).start()
    driver = Driver(settings=_settings(args), report=report, stop=stop)
    if args.mode == "rebuild":
        driver.rebuild()
    else:
        driver.run(available_now=args.mode == "once")


def _settings(args: argparse.Namespace) -> MetricsSettings:
    if args.settings is not None:
        return MetricsSettings.from_json(args.settings, os.environ)
    if args.master is None:
        args.master = ""  # spark-submit knows it
    settle_home(args, os.environ)
    return settings_of(args, dict(os.environ))


def _stop_at_end_of_input(stop: threading.Event) -> None:
    """Set `stop` when the supervisor, which holds the other end, is gone, however it went."""
    # Not sys.stdin: a thread inside its lock would abort the interpreter's end.
    while os.read(0, 4096):
        pass
    stop.set()


class _ReportWriter:
    """Writes reports to what was standard output before the JVM could write to it as well."""

    def __init__(self, *, child: bool) -> None:
        self._lock = threading.Lock()
        self._out = os.dup(1)
        if child:
            os.dup2(2, 1)

    def __call__(self, report: dict[str, Any]) -> None:
        with self._lock:
            try:
                os.write(self._out, json.dumps(report).encode() + b"\n")
            except BrokenPipeError:
                return  # the supervisor is gone; standard input tells us to stop

    def end(self, error: JobwireError | None) -> int:
        """Report how it ended; return the exit code."""
        code = int(error.exit_code) if error is not None else int(ExitCode.OK)
        last: dict[str, Any] = {"kind": "end", "exit_code": code}
        if error is not None:
            last |= {
                "error": error.message,
                "hint": error.hint,
                "class": type(error).__name__,
                "retry": may_pass(error),
                "disk_full": bool(error.facts.get("disk_full")),
            }
        self(last)
        return code


if __name__ == "__main__":
    sys.exit(main())
