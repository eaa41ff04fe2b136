"""Every command takes any argument: no trace, no hang, no stray file, and a documented exit code."""

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobwire.certs.authority import CertificateAuthority
from jobwire.cli.main import COMMANDS, _parser, main
from jobwire.core.exit_codes import ExitCode
from jobwire.core.signature import new_token
from jobwire.jobs.record import JobRecord
from jobwire.publisher.cli import main as publish_event
from jobwire.registry.store import RecordStore
from jobwire.subscriber.cli import main as job_subscriber
from jobwire.testing import new_home
from jobwire.testing.command_line import commands_of
from jobwire.testing.wild_arguments import TEXTS, arguments

_SECONDS = 60
_CREATED = "2026-01-01T00:00:00Z"
# What is not what an option expects, in the working directory of each example.
THINGS = (
    "missing", "directory", "fifo", "socket", "device", "empty", "bytes", "secret", "huge", "loop", "no/way",
    "file/below",
)  # fmt: skip
# Options that wait for as long as they are told to.
WAITS = {"--wait", "--follow", "--watch", "--while-pid"}
# They connect, or start what connects: their settings are unusable, so that they end before.
CONNECTING = {
    ("run",), ("submit",), ("publish",), ("watch",), ("attach",), ("doctor",), ("up",), ("serve",),
    ("registry", "serve"),
    ("registry", "purge"),
    ("metrics", "run"), ("metrics", "once"), ("metrics", "rebuild"), ("metrics", "record"),
}  # fmt: skip
_AT_ONCE = ["--timeout-seconds", "0"]
# The last word counts: servers cannot listen there, the demo refuses a directory that it did not make, and
# who waits does not.
LAST = {
    ("broker", "up"): ["--host", "192.0.2.1"],
    ("dashboard",): ["--host", "192.0.2.1"],
    ("demo",): ["--directory", "directory"],
    ("wait",): _AT_ONCE,
    ("inbox", "watch"): _AT_ONCE,
    ("inbox", "wait-reply"): _AT_ONCE,
    ("inbox", "ask"): _AT_ONCE,
    ("board", "wait"): _AT_ONCE,
    ("lock", "wait"): _AT_ONCE,
    # Nothing is started in the tmux of whoever runs the tests.
    ("sessions", "create"): ["--agent", "nobody"],
    ("submit",): ["--agent", "nobody"],
}
# What follows a command's first word is the command's own.
FIRST: dict[tuple[str, ...], list[str]] = {("autopilot",): ["--dry-run"]}
# They write where they are told to.
WRITERS = {
    ("init",), ("broker", "render"), ("broker", "passwd", "add"), ("broker", "passwd", "remove"),
    ("registry", "ticket"), ("agent", "ticket"), ("inbox", "init"), ("metrics", "keys"), ("metrics", "plot"),
    ("bus", "export"),
}  # fmt: skip
_QUICKLY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def every_command() -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Yield each command's words and parser."""
    for name in COMMANDS:
        for words, parser in commands_of(_parser(name)):
            if words[0] == name:
                yield words, parser


ALL = dict(every_command())


class Outcome(NamedTuple):
    """What became of one command."""

    code: object
    out: str
    err: str


class Ground:
    """Working directories for examples: a home, two jobs, and things that are no files."""

    def __init__(self, folder: Path, template: Path) -> None:
        self._folder = folder
        self._template = template
        self._numbers = count()

    @contextlib.contextmanager
    def entered(self, *, connecting: bool) -> Iterator[Path]:
        """Stand in a newly filled directory for the block; it is removed after it."""
        folder = self._folder / str(next(self._numbers))
        shutil.copytree(self._template, folder)
        unusable = "[broker]\nno_such_setting = 1\n[metrics]\nno_such_setting = 1\n"
        usable = '[broker]\nbroker = "127.0.0.1"\nport = 1\ntls = "off"\n'
        (folder / ".hermes" / "jobwire.toml").write_text(unusable if connecting else usable)
        before = Path.cwd()
        os.chdir(folder)
        try:
            self._fill()
            yield folder
        finally:
            os.chdir(before)
            shutil.rmtree(folder)

    def _fill(self) -> None:
        Path("directory").mkdir()
        os.mkfifo("fifo")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("socket")
        if os.geteuid() == 0:
            os.mknod("device", stat.S_IFCHR | 0o600, os.makedev(1, 7))
        Path("empty").touch(0o600)
        Path("bytes").write_bytes(b"\xff\x00{" * 9)
        Path("secret").write_text("secret\n")
        Path("secret").chmod(0o600)
        Path("file").touch()
        with Path("huge").open("wb") as huge:
            huge.truncate(1 << 36)
        Path("loop").symlink_to("loop")


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Give the working directories; nothing of this environment leads elsewhere."""
    template = tmp_path_factory.mktemp("template")
    home = new_home(template / ".hermes")
    store = RecordStore(home)
    for job_id in ("0000abcd", "deadbeef"):
        store.create(JobRecord(job_id, new_token(), _CREATED, _CREATED, title="a job"))
    CertificateAuthority(home / "certs").init()
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("MQTT_", "JOBWIRE_")):
                patch.delenv(name)
        with Path(os.devnull).open() as nothing:
            patch.setattr(sys, "stdin", nothing)
            yield Ground(tmp_path_factory.mktemp("examples"), template)


@contextlib.contextmanager
def limited(what: str) -> Iterator[None]:
    """Raise AssertionError in the block where it waits for what never comes."""

    def too_long(_number: int, _frame: object) -> None:
        raise AssertionError(f"{what} still runs after {_SECONDS} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(program: Callable[[list[str]], int], words: list[str]) -> Outcome:
    """Run a command in this process, on streams as a shell gives them."""
    with (
        Path("out").open("w+", encoding="utf-8") as out,
        Path("err").open("w+", encoding="utf-8", errors="backslashreplace") as err,
    ):
        Path("out").unlink()
        Path("err").unlink()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), limited(str(words)):
            try:
                code: object = program(words)
            except SystemExit as ended:
                code = ended.code
        for stream in (out, err):
            stream.seek(0)
        return Outcome(code, out.read(), err.read())


def check(found: Outcome, words: list[str]) -> None:
    """Assert what holds for each outcome."""
    assert "Traceback" not in found.err, (words, found.err)
    assert found.code in set(ExitCode), (words, found)
    own = words[: words.index("--")] if "--" in words else words
    if found.code == ExitCode.OK:
        return
    if "--json" in own and not found.out:
        assert json.loads(found.err.splitlines()[-1])["exit_code"] == found.code, (words, found)
    assert found.err or found.out, words


def with_last(more: list[str], last: list[str]) -> list[str]:
    """Return the arguments with options that outweigh those before them."""
    end = more.index("--") if "--" in more else len(more)
    return [*more[:end], *last, *more[end:]]


@pytest.mark.parametrize("words", sorted(ALL), ids=" ".join)
def test_any_arguments(words: tuple[str, ...], ground: Ground) -> None:
    """Wild values for all that it takes: a documented code, words that say why, nothing left behind."""

    @_QUICKLY
    @given(more=arguments(ALL[words], paths=THINGS, without=WAITS))
    def examine(more: list[str]) -> None:
        line = [*words, *FIRST.get(words, []), *with_last(more, LAST.get(words, []))]
        with ground.entered(connecting=words in CONNECTING) as folder:
            before = set(folder.iterdir())
            check(outcome(main, line), line)
            assert words in WRITERS or set(folder.iterdir()) == before, line

    examine()


@pytest.mark.parametrize("program", [publish_event, job_subscriber])
def test_any_arguments_of_the_other_programs(program: Callable[[list[str]], int], ground: Ground) -> None:
    """`publish_event` and `job_subscriber` take what `jobwire publish` and `watch` take."""
    parser = ALL["publish" if program is publish_event else "watch",]

    @_QUICKLY
    @given(more=arguments(parser, paths=THINGS, without=WAITS))
    def examine(more: list[str]) -> None:
        with ground.entered(connecting=True) as folder:
            before = set(folder.iterdir())
            check(outcome(program, more), more)
            assert set(folder.iterdir()) == before, more

    examine()


@_QUICKLY
@given(
    name=st.one_of(st.sampled_from([*THINGS, "", "\0", "\ud800", "x" * 5000]), TEXTS), by_option=st.booleans()
)
def test_any_home(ground: Ground, name: str, by_option: bool) -> None:
    """Whatever a home is named, a status bar gets figures of a home or nothing."""
    with ground.entered(connecting=False) as folder, pytest.MonkeyPatch.context() as patch:
        before = set(folder.iterdir())
        if not by_option and "\0" not in name and "\ud800" not in name:
            with contextlib.suppress(UnicodeEncodeError):
                patch.setenv("JOBWIRE_HOME", name)
        line = ["status", "--line", *([f"--home={name}"] if by_option else [])]
        found = outcome(main, line)
        check(found, line)
        assert (found.code == ExitCode.OK) == (found.out != "")
        assert set(folder.iterdir()) == before
