"""tmux: a worker in a window, and where that window is found again."""

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from jobwire.core.clock import Clock, SystemClock
from jobwire.core.errors import ConfigError, InvalidInputError
from jobwire.jobs.record import JobRecord
from jobwire.runner.exit_status import ExitStatus

# The record's own field with the job's pane.
PANE = "tmux"
# What tmux sets for its panes: the caller's own would name another pane and another terminal.
PANE_VARIABLES = frozenset({"TMUX", "TMUX_PANE", "TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION"})
_SIZE_VARIABLES = frozenset({"COLUMNS", "LINES"})
_LONGEST_NAME = 64
# tmux(1), "target-session": they separate window and pane, and begin ids, flags and patterns.
_SEPARATORS = frozenset(":.")
_MARKS = frozenset("-=$@%!{+~")
_PANE_ID = re.compile(r"%[0-9]{1,9}")
# Sessions come and go beside us, and so does the server: each try looks again.
_TRIES = 40
_AGAIN_SECONDS = 0.05
_SHOWN = "#{pane_id} #{pane_pid} #{socket_path}"


class Pane(NamedTuple):
    """A pane that a worker was given: the server's socket, the session, the pane's id, and the worker's."""

    socket: str
    session: str
    pane: str
    pid: int

    @classmethod
    def of(cls, record: JobRecord) -> Self | None:
        """Return the pane that the record names, or None."""
        match record.extra.get(PANE):
            case {"socket": str(socket), "session": str(session), "pane": str(pane), "pid": int(pid)}:
                sound = socket.startswith("/") and _PANE_ID.fullmatch(pane)
                return cls(socket, session, pane, pid) if sound else None
        return None


def check_name(name: str, *, what: str = "session") -> str:
    """Return a name that tmux takes as it is; raises InvalidInputError for any other."""
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
        raise InvalidInputError(f"a tmux {what} has a name of 1 to {_LONGEST_NAME} printable characters")
    # A socket's name is one of a file.
    bad = (_SEPARATORS if what == "session" else {"/"}) & set(name) or _MARKS & {name[0]}
    if bad:
        raise InvalidInputError(
            f"{name!r} is not a name for a tmux {what}: tmux reads {min(bad)!r} as something else",
            hint="use letters, digits, - and _",
        )
    return name


class Tmux:
    """One tmux server: the one named `socket` (`tmux -L`), else the one we are in, else the default."""

    def __init__(
        self, *, socket: str | None = None, path: str | None = None, clock: Clock | None = None
    ) -> None:
        program = shutil.which("tmux")
        if program is None:
            raise ConfigError("tmux is not installed", hint="apt-get install tmux, or run without --tmux")
        self._clock = clock or SystemClock()
        self._words = [program]
        if socket is not None:
            self._words += ["-L", check_name(socket, what="socket")]
        elif path is not None:
            self._words += ["-S", path]

    def open_window(self, session: str, title: str, command: Sequence[str], *, directory: Path) -> Pane:
        """Run `command` in a new window of `session`, which is made if it is not there.

        Any number of processes may do so at once: who loses the race for a new session adds a window
        to it. Raises ConfigError with tmux's own words.
        """
        check_name(session)
        window = ["new-window", "-d", "-t", f"={session}:"]
        new = ["new-session", "-d", "-s", session, "-x", "120", "-y", "40"]
        shown = ["-n", title, "-P", "-F", _SHOWN, "--", *command]
        words = ""
        for attempt in range(2 * _TRIES):
            answer = self._ask([*(new if attempt % 2 else window), *shown], directory=directory)
            if answer.returncode == 0:
                pane, pid, socket = answer.stdout.strip().split(" ", 2)
                return Pane(socket, session, pane, int(pid))
            words = answer.stderr.strip()
            if not _may_pass(words):
                break
            self._clock.sleep(_AGAIN_SECONDS * (attempt % 2))
        raise ConfigError(f"tmux refused: {words}", hint="see `tmux ls`")

    def holds(self, pane: Pane) -> bool:
        """Tell whether the pane is still there, with the same process in it."""
        answer = self._ask(["display-message", "-p", "-t", pane.pane, _SHOWN], directory=Path("/"))
        return answer.stdout.split(" ")[:2] == [pane.pane, str(pane.pid)]

    def switch(self, pane: Pane) -> None:
        """Show the pane in the client that we run in. Raises ConfigError with tmux's own words."""
        answer = self._ask(["switch-client", "-t", pane.pane], directory=Path("/"))
        if answer.returncode != 0:
            raise ConfigError(f"tmux refused: {answer.stderr.strip()}")

    def attach(self, pane: Pane) -> None:
        """Show the pane in this terminal until the person detaches or the session ends."""
        look = ["select-window", "-t", pane.pane, ";", "select-pane", "-t", pane.pane]
        subprocess.run([*self._words, *look, ";", "attach-session", "-t", f"={pane.session}"], check=False)

    def _ask(self, words: list[str], *, directory: Path) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self._words, *words], cwd=directory, capture_output=True, text=True, check=False
        )


class TmuxWorker:
    """A worker in a window of a tmux session."""

    def __init__(
        self, tmux: Tmux, command: Sequence[str], *, session: str, title: str, directory: Path
    ) -> None:
        self.pane = tmux.open_window(session, title, command, directory=directory)
        # A descriptor of the process, not its number: numbers are used again (pidfd_open(2)).
        self._descriptor: int | None = None
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            self._descriptor = os.pidfd_open(self.pane.pid)

    def alive(self) -> bool:
        """Tell whether the pane's process still runs."""
        return not self.wait(0)

    def stop(self) -> None:
        """Send SIGTERM to the pane's process."""
        if self._descriptor is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGTERM)

    def wait(self, seconds: float) -> bool:
        """Wait for its end; a pidfd becomes readable then."""
        if self._descriptor is None:
            return True
        # Not select(): a process with many jobs has descriptors that it cannot name.
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def ending(self) -> ExitStatus | None:
        """Return None: only a parent learns it."""
        return None

    def close(self) -> None:
        """Let go of the process, which goes on; from now on it counts as ended."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def for_pane(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what describes the caller's terminal: a pane has its own."""
    theirs = PANE_VARIABLES | _SIZE_VARIABLES
    return {name: value for name, value in environ.items() if name not in theirs}


def _may_pass(words: str) -> bool:
    """Tell whether tmux's refusal comes from others who make or end sessions and servers beside us."""
    passing = (
        "duplicate session",
        "can't find",
        "no server running",
        "error connecting",
        "server exited",
        "lost server",
        "no sessions",
        "no current",
    )
    return any(part in words for part in passing)
