"""One part of a running host: started, and started again when it ends, with a growing pause."""

import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from jobwire.cli.parts import Part
from jobwire.core.backoff import retry_delay
from jobwire.core.clock import Clock
from jobwire.core.errors import JobwireError
from jobwire.storage.process import ManagedProcess
from jobwire.storage.running_parts import READY, address_in

_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0
# Who was well for so long fails for the first time.
HEALTHY_SECONDS = 60.0
_LARGEST_LOG_BYTES = 10 << 20


class Revival(NamedTuple):
    """How often a part has ended in a row."""

    failures: int = 0

    def after(self, well_seconds: float) -> "Revival":
        """Return this with one more end, of a part that was well for so long."""
        return Revival(1 if well_seconds >= HEALTHY_SECONDS else self.failures + 1)

    @property
    def pause_seconds(self) -> float:
        """Return how long to wait before the next start."""
        return retry_delay(self.failures, 0.0, base=_FIRST_PAUSE_SECONDS, cap=_LONGEST_PAUSE_SECONDS)


class LivePart:
    """A part that is kept alive. For one thread, but for `give_up` and `hurry`."""

    def __init__(
        self,
        part: Part,
        *,
        home: Path,
        log: Path,
        environ: Mapping[str, str],
        keep: Sequence[int],
        clock: Clock,
        say: Callable[[str, str], None],
    ) -> None:
        self.part = part
        self.log = log
        self._home = home
        self._environ = environ
        self._keep = keep
        self._clock = clock
        self._say = say
        self._revival = Revival()
        self._well_since: float | None = None
        self._again_at: float | None = None
        self._hurried = False
        self._address = ""
        self._process = self._new()

    def _new(self) -> ManagedProcess:
        return ManagedProcess(
            self.part.command(self._home),
            log=self.log,
            environ=self._environ,
            keep=self._keep,
            grace_seconds=self.part.grace_seconds,
            clock=self._clock,
        )

    @property
    def state(self) -> dict[str, object]:
        """Return its state for `up.json`: ready, starting or waiting, with its process id and address."""
        if not self._process.alive():
            return {"state": "waiting", "failures": self._revival.failures}
        state = "starting" if self._well_since is None else READY
        return {"state": state, "pid": self._process.pid, "address": self._address}

    def begin(self) -> dict[str, object]:
        """Start it for the first time; return its ready line. Raises the JobwireError that it ends with."""
        line = self._process.start().ready_line(self.part.start_seconds)
        self._well_since = self._clock.monotonic()
        self._address = address_in(line)
        return line

    def look(self) -> bool:
        """Start it again where that is due; tell whether anything changed. Never blocks for long."""
        if self._process.alive():
            return self._well_since is None and self._is_ready()
        now = self._clock.monotonic()
        if self._again_at is None:
            well = 0.0 if self._well_since is None else now - self._well_since
            self._revival, self._well_since = self._revival.after(well), None
            self._again_at = now + self._revival.pause_seconds
            self._say(self.part.name, f"{self._end()}; starts again in {self._revival.pause_seconds:.0f} s")
            return True
        if now < self._again_at:
            return False
        self._again_at = None
        self._process.stop()
        make_room(self.log)
        self._process = self._new()
        # No memory, no descriptor, no room for the log: the next look finds that it does not run.
        with suppress(OSError):
            self._process.start()
        return True

    def _is_ready(self) -> bool:
        try:
            line = self._process.reported()
        except JobwireError:
            return False  # it is about to end, and is quoted then
        if line:
            self._well_since = self._clock.monotonic()
            self._address = address_in(line)
            self._say(self.part.name, f"runs again (pid {self._process.pid})")
        return bool(line)

    def _end(self) -> str:
        """Say how it ended, with its reason where it gave one."""
        how = self._process.how_it_ended()
        try:
            self._process.reported()
        except JobwireError as error:
            return f"{how}: {error}"
        return how

    def give_up(self) -> None:
        """Let it not become ready: who waits for it waits no longer. From any thread."""
        if self._well_since is None:
            self._process.end()

    def hurry(self) -> None:
        """Kill it. From any thread."""
        self._hurried = self._hurried or self._process.alive()
        self._process.tell(signal.SIGKILL)

    def end(self) -> None:
        """End it, and say so where it ran."""
        # In this order: who is gone because it was hurried, was hurried first.
        ran = (self._process.alive() or self._hurried) and self._well_since is not None
        obeyed = self._process.stop()
        if ran and self._hurried:
            self._say(self.part.name, "killed")
        elif ran:
            self._say(self.part.name, "ended" if obeyed else "killed: it did not end in time")


def make_room(log: Path) -> None:
    """Begin a log again that is large; the old one is kept beside it. The writer appends, so it goes on.

    Where that cannot be done, for want of room, the log stays.
    """
    old = log.with_name(f"{log.name}.1")
    with suppress(OSError):
        if log.stat().st_size > _LARGEST_LOG_BYTES:
            shutil.copyfile(log, old)
            old.chmod(0o600)
            os.truncate(log, 0)
