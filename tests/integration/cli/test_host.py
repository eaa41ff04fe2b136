"""The supervisor of a host with parts that behave badly."""

import os
import signal
import sys
from pathlib import Path

import pytest

from jobwire.cli.host import Host, HostLocks
from jobwire.cli.live_part import LivePart, make_room
from jobwire.cli.parts import SERVE, Part
from jobwire.core.clock import SystemClock
from jobwire.core.errors import ConflictError, JobwireError
from jobwire.core.override import override
from jobwire.registry.layout import HomeLayout
from jobwire.testing import wait_for
from jobwire.testing.clock import ManualClock

_STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('{"ready": true}', flush=True)
while True:
    signal.pause()
"""
_FAILS = 'print(\'{"error": "no room", "hint": "make some", "exit_code": 50}\'); raise SystemExit(50)'


class Program(Part):
    """A part that is a program of a test."""

    @override
    def command(self, _home: Path) -> list[str]:
        """Return the program's command line."""
        return [sys.executable, "-c", *self.words]


def part(words: tuple[str, ...], *, home: Path, log: Path, clock: ManualClock, notes: list[str]) -> LivePart:
    """Give a part that is a program of these words and notes what it says."""
    return LivePart(
        Program(SERVE, words),
        home=home,
        log=log,
        environ=os.environ,
        keep=(),
        clock=clock,
        say=lambda _, text: notes.append(text),
    )


def test_a_second_signal_ends_at_once_what_will_not_end(tmp_path: Path) -> None:
    """One Ctrl-C waits for a part that does not end; the second kills it, and that is said."""
    notes: list[tuple[str, str]] = []
    host = Host(
        tmp_path,
        [Program(SERVE, (_STUBBORN,))],
        environ=os.environ,
        clock=SystemClock(),
        say=lambda name, text: notes.append((name, text)),
    )
    parts: list[dict[str, object]] = []
    host.run(
        on_part=lambda _, line: parts.append(line),
        on_ready=lambda: os.kill(os.getpid(), signal.SIGINT),
        on_stop=lambda: os.kill(os.getpid(), signal.SIGINT),
    )
    assert parts == [{"ready": True}]
    assert notes == [(SERVE, "killed")]
    assert HostLocks(tmp_path, clock=SystemClock()).free()


def test_a_part_that_fails_again_and_again_is_quoted_and_waited_for_longer(tmp_path: Path) -> None:
    """Each end says its reason and the pause, which doubles; nothing is started before it is over."""
    notes: list[str] = []
    clock = ManualClock()
    live = part((_FAILS,), home=tmp_path, log=tmp_path / "serve.log", clock=clock, notes=notes)
    with pytest.raises(JobwireError):
        live.begin()
    for pause in (1, 2, 4):
        wait_for(live.look, what="the end")
        assert notes[-1] == f"ended with exit code 50: no room (make some); starts again in {pause} s"
        assert not live.look()
        clock.advance(pause)
        assert live.look()
    live.end()


def test_a_large_log_is_begun_again(tmp_path: Path) -> None:
    """A log of more than 10 MiB is kept beside a new one, both their owner's alone; its writer goes on."""
    log = tmp_path / "serve.log"
    log.touch(0o600)
    with log.open("ab", buffering=0) as writer:
        writer.write(b"x" * (11 << 20))
        make_room(log)
        assert log.stat().st_size == 0
        writer.write(b"on")
    assert log.read_bytes() == b"on"
    old = tmp_path / "serve.log.1"
    assert (old.stat().st_size, old.stat().st_mode & 0o777) == (11 << 20, 0o600)


def test_a_part_that_cannot_be_started_is_tried_again(tmp_path: Path) -> None:
    """What the system refuses at a start is said, and waited for like any other end."""
    notes: list[str] = []
    clock = ManualClock()
    blocked = tmp_path / "blocked"
    live = part(("",), home=tmp_path, log=blocked / "serve.log", clock=clock, notes=notes)
    with pytest.raises(JobwireError):
        live.begin()
    (blocked / "serve.log").unlink()
    blocked.rmdir()
    blocked.touch()
    wait_for(live.look, what="the end")
    clock.advance(1)
    assert live.look()
    assert live.look()
    assert notes[-1] == "was not started; starts again in 2 s"


def test_a_supervisor_of_somebody_else_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that takes no signal of ours is told at once, with who can end it."""
    locks = HostLocks(tmp_path, clock=SystemClock())
    HomeLayout(tmp_path).make_layout()
    with locks.taken(lambda: None):
        found = locks.supervisor()
        assert found is not None
        assert found.pid == os.getpid()

        def refuse(_pid: int, _number: int) -> None:
            raise PermissionError

        monkeypatch.setattr(os, "kill", refuse)
        with pytest.raises(ConflictError, match="not yours to end"):
            locks.supervisor()
