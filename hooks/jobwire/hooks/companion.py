"""What the registry process does for hooks: all but those that wait for a person, or behind a turn.

A thread listens, a few others work: a call that takes long (a store that is busy) holds up three of its kind
at most, and the hooks beside them do their work by themselves.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.errors import JobwireError
from jobwire.hooks.handling import respond
from jobwire.hooks.kinds import kind_of
from jobwire.hooks.raw_input import NoHookInputError, parse
from jobwire.hooks.served import (
    ANSWER,
    ERROR,
    GO,
    LONGEST_PATH,
    MAX_HEADER,
    MAX_PART,
    SOCKET_FILE,
    TAKEN,
    peer_of,
)
from jobwire.hooks.signs import Said, Sign

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from jobwire.hooks.kinds import HookKind
    from jobwire.registry.duties import Duty

_WORKERS, _MOST_CALLS = 4, 64
_TICK_SECONDS = 0.25
# A hook that lives sends its call at once.
_READ_SECONDS = 1.0
_log = logging.getLogger("jobwire.hooks")


class HookCall(NamedTuple):
    """One call of a hook."""

    kind: HookKind
    said: Said
    environ: dict[str, str]


class HookService:
    """Does the work of hooks in a home, in the registry process."""

    name = "hooks"

    def __init__(self, home: Path) -> None:
        self._home = str(home.resolve())
        self._path = os.path.join(self._home, SOCKET_FILE)  # noqa: PTH118 - as the hook names it
        self._room = BoundedSemaphore(_MOST_CALLS)
        self.calls = 0

    def run(self, duty: Duty, stop: threading.Event) -> None:
        """Take calls until `stop` is set."""
        duty.rest()
        listener = self._listen()
        if listener is None:
            stop.wait()
            return
        with (
            contextlib.closing(listener),
            ThreadPoolExecutor(_WORKERS, thread_name_prefix="hook") as workers,
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
                duty.work("taking a hook's call")
                if self._room.acquire(blocking=False):
                    workers.submit(self._serve, connection)
                else:
                    connection.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)  # noqa: PTH108 - as the hook names it

    def facts(self) -> dict[str, object]:
        """Return the figures for the health file."""
        return {"calls": self.calls}

    def _listen(self) -> socket.socket | None:
        """Listen where hooks look; they do their work by themselves where that cannot be."""
        if len(os.fsencode(self._path)) >= LONGEST_PATH:
            return None
        listener, new = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), f"{self._path}~"
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(new)  # noqa: PTH108 - as the hook names it
            listener.bind(new)
            os.chmod(new, 0o600)  # noqa: PTH101 - as above
            listener.listen(_MOST_CALLS)
            # Who finds it is heard; what is there is stale: this is the home's only registry process.
            os.replace(new, self._path)  # noqa: PTH105 - as above
        except OSError as error:
            _log.warning("hooks do their work by themselves, which is slower: %s", error)
            listener.close()
            return None
        listener.settimeout(_TICK_SECONDS)
        return listener

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, contextlib.suppress(OSError):
                connection.settimeout(_READ_SECONDS)
                found = self._take(connection)
                if found is None:
                    return
                connection.sendall(TAKEN)
                if connection.recv(1) == GO:
                    connection.sendall(self._done(found))
        finally:
            self._room.release()

    def _done(self, found: HookCall) -> bytes:
        self.calls += 1
        try:
            printed = respond(found.kind, found.said, found.environ, home=self._home)
        except JobwireError as error:
            return ERROR + f"{error.message}; {error.hint}".encode()
        except Exception as error:  # noqa: BLE001 - an agent is never stopped by a defect of ours
            _log.exception("a hook of %s", found.kind.name)
            return ERROR + f"unexpected {type(error).__name__}: {error}".encode()
        return ANSWER + printed.encode()

    def _take(self, connection: socket.socket) -> HookCall | None:
        """Read a call; None for what is none, and for what the hook has to do by itself."""
        if not _sees_what_we_see(connection):
            return None
        with connection.makefile("rb") as source:
            header = source.readline(MAX_HEADER).split()
            if len(header) != 3 or not all(size.isdigit() for size in header[1:]):  # noqa: PLR2004 - its form
                return None
            own, given = (int(size) for size in header[1:])
            if max(own, given) > MAX_PART:
                return None
            variables, raw = source.read(own), source.read(given)
        if len(variables) + len(raw) != own + given:
            return None
        try:
            kind = kind_of(header[0].decode("ascii", "replace"))
            said = kind.read(parse(raw))
        except (JobwireError, NoHookInputError):
            return None
        if said is None or not _can_be_served(said):
            return None
        pairs = (os.fsdecode(one).partition("=") for one in variables.split(b"\0"))
        return HookCall(kind, said, {name: value for name, _, value in pairs})


def _can_be_served(said: Said) -> bool:
    """Tell whether the work needs nothing of the hook's own process: no person, no working directory."""
    return said.sign is not Sign.PERMISSION and (said.sign is not Sign.TOOL_BEFORE or bool(said.directory))


def _sees_what_we_see(connection: socket.socket) -> bool:
    """Tell whether it is this user's hook, and the paths that it names are ours: not those of a container."""
    pid, uid = peer_of(connection)
    if uid not in {os.geteuid(), 0}:
        return False
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt")  # noqa: PTH115 - no file
    except OSError:
        return False
