"""What the registry process does for others: see `delivery.call`.

A thread listens, and each call has one of its own: one that takes long (a store that is busy) holds up none.
Where as many are at work as there may be, the next one is done by whoever calls. What a call asks of this
process itself (`publish_event` hands over) has a place besides: else calls would want places that they hold.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Protocol

from jobwire.delivery.call import GO, MAX_HEADER, MAX_PART, TAKEN, address_in, peer_of

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from jobwire.registry.duties import Duty

# Does a call that was taken; is told how to ask whether the command still waits. Empty: not done here.
Work = Callable[[Callable[[], bool]], bytes]

_MOST_CALLS = 128
_TICK_SECONDS = 0.25
# A command that lives sends its call at once.
_READ_SECONDS = 1.0
_log = logging.getLogger("jobwire.calls")


class Callee(Protocol):
    """Does calls of one kind."""

    def take(self, name: str, environ: dict[str, str], given: bytes) -> Work | None:
        """Return what does this call; None for what is none, or is for the command itself to do."""


class CallService:
    """Does the calls that are made in a home, in the registry process; `callees` by the calls' names.

    The calls named in `anywhere` speak of no path, so they may come from a container that shares the home.
    """

    name = "calls"

    def __init__(
        self, home: Path, callees: Mapping[str, Callee], *, anywhere: Collection[str] = frozenset()
    ) -> None:
        self._home = str(home.resolve())
        self._callees = callees
        self._anywhere = anywhere
        self._room = BoundedSemaphore(_MOST_CALLS)
        # Of calls that are made in calls: each makes one at a time.
        self._inner_room = BoundedSemaphore(_MOST_CALLS)
        self._listener: socket.socket | None = None
        self.calls = 0

    def run(self, duty: Duty, stop: threading.Event) -> None:
        """Take calls until `stop` is set; after `open`."""
        duty.rest()
        listener = self._listener
        if listener is None:
            stop.wait()
            return
        with (
            contextlib.closing(listener),
            ThreadPoolExecutor(2 * _MOST_CALLS, thread_name_prefix="call") as workers,
        ):
            while not stop.is_set():
                duty.rest()
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                except OSError as error:
                    duty.failed(str(error))
                    stop.wait(_TICK_SECONDS)
                    continue
                duty.work("taking a call")
                room = self._inner_room if _is_own(connection) else self._room
                if room.acquire(blocking=False):
                    workers.submit(self._serve, connection, room)
                else:
                    connection.close()
        with contextlib.suppress(OSError), self._address() as path:
            os.unlink(path)  # noqa: PTH108 - as the command names it

    def facts(self) -> dict[str, object]:
        """Return the figures for the health file."""
        return {"calls": self.calls}

    def open(self) -> None:
        """Listen where commands look; they do their work by themselves where that cannot be."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with self._address() as path:
                new = f"{path}~"
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(new)  # noqa: PTH108 - as the command names it
                listener.bind(new)
                os.chmod(new, 0o600)  # noqa: PTH101 - as above
                listener.listen(_MOST_CALLS)
                # Who finds it is heard; what is there is stale: this is the home's only registry process.
                os.replace(new, path)  # noqa: PTH105 - as above
        except OSError as error:
            _log.warning("hooks and workers here do their work by themselves, which is slower: %s", error)
            listener.close()
            return
        listener.settimeout(_TICK_SECONDS)
        self._listener = listener

    @contextlib.contextmanager
    def _address(self) -> Iterator[str]:
        path, folder = address_in(self._home)
        try:
            yield path
        finally:
            if folder is not None:
                os.close(folder)

    def _serve(self, connection: socket.socket, room: BoundedSemaphore) -> None:
        try:
            with connection, contextlib.suppress(OSError):
                connection.settimeout(_READ_SECONDS)
                work = self._take(connection)
                if work is None:
                    return
                connection.sendall(TAKEN)
                if connection.recv(1) == GO:
                    self.calls += 1
                    connection.sendall(work(lambda: _waits(connection)))
        except Exception:  # noqa: BLE001 - logged; one call never ends the others
            # The command does it by itself, or tells that it does not know.
            _log.exception("a call could not be done")
        finally:
            room.release()

    def _take(self, connection: socket.socket) -> Work | None:
        """Read a call; None for what is none, and for what the command has to do by itself."""
        pid, uid = peer_of(connection)
        if uid not in {os.geteuid(), 0}:
            return None
        with connection.makefile("rb") as source:
            header = source.readline(MAX_HEADER).split()
            if len(header) != 3 or not all(size.isdigit() for size in header[1:]):  # noqa: PLR2004 - its form
                return None
            callee = self._callees.get(name := header[0].decode("ascii", "replace"))
            own, given = (int(size) for size in header[1:])
            if callee is None or max(own, given) > MAX_PART:
                return None
            if name not in self._anywhere and not _sees_what_we_see(pid):
                return None
            variables, raw = source.read(own), source.read(given)
        if len(variables) + len(raw) != own + given:
            return None
        pairs = (os.fsdecode(one).partition("=") for one in variables.split(b"\0"))
        return callee.take(name, {name: value for name, _, value in pairs}, raw)


def _is_own(connection: socket.socket) -> bool:
    """Tell whether it is this process that calls."""
    try:
        return peer_of(connection)[0] == os.getpid()
    except OSError:
        return False


def _waits(connection: socket.socket) -> bool:
    """Tell whether the other end is still there: it says nothing more, so only its end can be read."""
    poll = select.poll()  # not select(2), which takes no descriptor above 1,023
    poll.register(connection, select.POLLIN)
    return not poll.poll(0)


def _sees_what_we_see(pid: int) -> bool:
    """Tell whether the process' paths are ours: not those of a container."""
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt")  # noqa: PTH115 - no file
    except OSError:
        return False
