"""The supervisor behind `jobwire up`: one home's parts, started in order, kept alive, ended in order."""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from jobwire.cli.live_part import LivePart, make_room
from jobwire.cli.parts import Part
from jobwire.core.clock import Clock, utc_timestamp
from jobwire.core.errors import ConflictError, JobwireError, StorageError
from jobwire.registry.layout import HomeLayout
from jobwire.storage import file_lock
from jobwire.storage.durable import replace_atomically
from jobwire.storage.files import SystemFiles
from jobwire.storage.process_life import life_of
from jobwire.storage.running_parts import FOLDER, LOCK, STATE_FILE
from jobwire.storage.signals import delivered

_LOOK_SECONDS = 0.2
_ROOM_LOOKS = 150
# Of what a killed supervisor left: the registry process may drain for so long.
_OTHERS_END_SECONDS = 45.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Holder(NamedTuple):
    """A running supervisor: its process, and which life of that number (`storage.process_life`)."""

    pid: int
    life: str


class HostLocks:
    """Who runs a home: the supervisor holds one lock, its parts inherit another while they live."""

    def __init__(self, home: Path, *, clock: Clock) -> None:
        layout = HomeLayout(home)
        self._home = home
        self._clock = clock
        self._supervisor = layout.lock_path(LOCK)
        self._parts = layout.lock_path("up-parts")

    @contextmanager
    def taken(self, wait: Callable[[], None]) -> Iterator[int]:
        """Be the home's supervisor for the block; gives the descriptor that its parts are to keep.

        `wait` is called where the parts of a killed supervisor still end. Raises AlreadyRunningError, and
        LockTimeoutError where they do not end.
        """
        try:
            own = file_lock.acquire_sole(
                self._supervisor, clock=self._clock, what=f"runs `jobwire up` for {self._home}"
            )
        except file_lock.AlreadyRunningError as error:
            hint = "`jobwire dashboard --link` shows its page, `jobwire down` stops it"
            raise file_lock.AlreadyRunningError(error.message, hint=hint, **error.facts) from error
        try:
            parts = file_lock.try_acquire(self._parts)
            if parts is None:
                wait()
                parts = file_lock.acquire(
                    self._parts,
                    clock=self._clock,
                    deadline_seconds=_OTHERS_END_SECONDS,
                    what="what an earlier `jobwire up` started",
                )
            try:
                yield parts
            finally:
                # Only closed: to unlock it would free it under a part that lives.
                os.close(parts)
        finally:
            file_lock.release(own)

    def free(self) -> bool:
        """Tell whether neither a supervisor nor a part runs."""
        return not (file_lock.is_held(self._supervisor) or file_lock.is_held(self._parts))

    def supervisor(self) -> Holder | None:
        """Return the supervisor; None where there is none.

        Raises ConflictError where it cannot be seen or ended: it is somebody else's.
        """
        if not file_lock.is_held(self._supervisor):
            return None
        pid = file_lock.holder_pid(self._supervisor)
        life = life_of(pid) if pid is not None else ""
        # It held the lock before and after: the number was not somebody else's in between.
        if pid is not None and life and file_lock.holder_pid(self._supervisor) == pid and _is_ours(pid):
            return Holder(pid, life)
        if not file_lock.is_held(self._supervisor):
            return None
        raise ConflictError(
            f"`jobwire up` runs for {self._home}, but the process is not yours to end",
            hint="ask its owner to run `jobwire down`",
        )


def _is_ours(pid: int) -> bool:
    """Tell whether we may send signals to the process (kill(2))."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


class Host:
    """A home's parts under one supervisor, in the foreground."""

    def __init__(
        self,
        home: Path,
        parts: Sequence[Part],
        *,
        environ: Mapping[str, str],
        clock: Clock,
        say: Callable[[str, str], None],
    ) -> None:
        self._home = home
        self._parts = parts
        self._environ = environ
        self._clock = clock
        self._say = say
        self._stop = threading.Event()
        self._live: list[LivePart] = []
        self._since = utc_timestamp(clock.now())

    def run(
        self,
        *,
        on_part: Callable[[Part, dict[str, object]], None],
        on_ready: Callable[[], None],
        on_stop: Callable[[], None],
    ) -> None:
        """Run until SIGINT, SIGTERM or SIGHUP; a second one hurries the end. Blocks.

        `on_part` gets each part's ready line, `on_stop` hears that the end begins. Raises
        AlreadyRunningError where the home has a supervisor, and what the first start of a part fails with;
        whatever was started has ended then.
        """
        layout = HomeLayout(self._home)
        layout.make_layout()
        folder = self._home / FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        locks = HostLocks(self._home, clock=self._clock)
        with locks.taken(lambda: self._say("up", "waits for the processes of a killed `jobwire up`")) as keep:
            self._live = [
                LivePart(
                    part,
                    home=self._home,
                    log=folder / f"{part.name}.log",
                    environ=self._environ,
                    keep=(keep,),
                    clock=self._clock,
                    say=self._say,
                )
                for part in self._parts
            ]
            with delivered(dict.fromkeys(_SIGNALS, self._asked_to_stop)):
                try:
                    if self._begin(on_part):
                        on_ready()
                        self._watch()
                finally:
                    if self._stop.is_set():
                        on_stop()
                    self._end()

    def _asked_to_stop(self) -> None:
        if self._stop.is_set():
            for live in self._live:
                live.hurry()
            return
        self._stop.set()
        for live in self._live:
            live.give_up()

    def _begin(self, on_part: Callable[[Part, dict[str, object]], None]) -> bool:
        """Start all parts; tell whether they are ready, and not told to stop."""
        for live in self._live:
            make_room(live.log)
            try:
                line = live.begin()
            except JobwireError:
                if self._stop.is_set():
                    return False
                raise
            on_part(live.part, line)
            self._write_state()
        return not self._stop.is_set()

    def _watch(self) -> None:
        looks = 0
        while not self._stop.wait(_LOOK_SECONDS):
            looks += 1
            changed = [live.look() for live in self._live]
            if any(changed):
                self._write_state()
            if looks % _ROOM_LOOKS == 0:
                for live in self._live:
                    make_room(live.log)

    def _end(self) -> None:
        for live in reversed(self._live):
            live.end()
        (self._home / STATE_FILE).unlink(missing_ok=True)

    def _write_state(self) -> None:
        body = {
            "pid": os.getpid(),
            "since": self._since,
            "parts": {live.part.name: live.state | {"log": str(live.log)} for live in self._live},
        }
        path = self._home / STATE_FILE
        try:
            replace_atomically([(path, json.dumps(body).encode())], files=SystemFiles())
        except StorageError as error:
            self._say("up", f"cannot tell others what runs: {error.message}")
