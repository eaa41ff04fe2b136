"""A command as a real child: what a stop reaches, what it never reaches, and what is left of it."""

import os
import select
import signal
from pathlib import Path

import pytest

from jobwire.core.clock import SystemClock
from jobwire.runner.command import Command, Pipes, Stream
from jobwire.runner.exit_status import ExitStatus
from jobwire.runner.process_session import living_groups
from jobwire.testing import wait_for
from jobwire.testing.descriptors import nothing_left_open
from jobwire.testing.run_command import runs


class Started:
    """A command that was started, with its output."""

    def __init__(self, script: str, grace_seconds: float) -> None:
        self.command = Command(
            ["bash", "-c", script], stdio=Pipes(), clock=SystemClock(), grace_seconds=grace_seconds
        )
        self._streams: list[Stream] = self.command.start()

    def line(self) -> str:
        """Return what it printed first."""
        source = self._streams[0].source
        select.select([source], [], [], 20)
        return os.read(source, 100).decode().strip()

    def wait_ended(self) -> None:
        """Wait for its end, without reaping it."""
        poll = select.poll()
        poll.register(self.command.ended_descriptor, select.POLLIN)
        assert poll.poll(20_000)

    def close(self) -> None:
        """Close its output."""
        for stream in self._streams:
            os.close(stream.source)


def test_its_number_is_held_until_it_is_reaped() -> None:
    """After its end nobody else gets the command's number, so a late signal reaches no stranger."""
    one = Started("exit 7", 1.0)
    one.wait_ended()
    pid = one.command.pid
    assert not runs(pid)
    assert Path(f"/proc/{pid}").exists()
    one.command.signal(signal.SIGKILL)
    assert one.command.ending() == ExitStatus(exit_status=7)
    assert one.command.reap() == ExitStatus(exit_status=7)
    assert not Path(f"/proc/{pid}").exists()
    one.command.signal_own_group(signal.SIGKILL)
    assert one.command.stopped_by() == 0
    one.close()


@pytest.mark.parametrize(
    "script",
    [
        "sleep 300 & echo $!; wait",
        "set -m; sleep 300 & echo $!; wait",
        "sleep 300 & echo $!; exit 0",
        "trap '' TERM; sleep 300 & echo $!; while :; do sleep 300; done",
        "sleep 300 & echo $!; kill -STOP $$",
    ],
)
def test_a_stop_reaches_all_that_it_started(script: str) -> None:
    """Children in groups of their own, of a dead parent, deaf to SIGTERM or suspended: all end."""
    one = Started(script, 0.5)
    child = int(one.line())
    assert runs(child)
    one.command.stop()
    one.wait_ended()
    assert living_groups(one.command.pid) == set()
    wait_for(lambda: not runs(child), what="the child to be gone")
    one.command.reap()
    one.close()


def test_a_daemon_is_left_alone() -> None:
    """Who left the command's session on purpose does not end with it."""
    one = Started("setsid sleep 300 >/dev/null 2>&1 & echo $!; sleep 300", 0.5)
    child = int(one.line())
    wait_for(lambda: os.getsid(child) == child, what="the daemon to be one")
    try:
        one.command.stop()
        one.command.reap()
        assert runs(child)
    finally:
        os.kill(child, signal.SIGKILL)
        one.close()


def test_nothing_is_left_open() -> None:
    """Fifty commands, some of which cannot be started, leave no descriptor behind."""
    with nothing_left_open():
        for number in range(50):
            if number % 5 == 0:
                with pytest.raises(FileNotFoundError):
                    Command(["no-such-program"], stdio=Pipes(), clock=SystemClock()).start()
                continue
            one = Started("exit 0", 1.0)
            one.wait_ended()
            one.command.reap()
            one.close()
