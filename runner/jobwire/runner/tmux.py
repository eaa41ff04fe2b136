"""tmux: the one place that runs it. Windows are opened, found again, looked at, written into and closed.

Nothing from outside becomes a format, a target or a shell's text: names are checked, panes go by their ids.
"""

import os
import re
import secrets
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from jobwire.coordination.sessions.names import LONGEST_NAME, check_session_name
from jobwire.core.clock import SystemClock
from jobwire.core.errors import ConfigError, InvalidInputError
from jobwire.jobs.record import JobRecord
from jobwire.storage.process_life import life_of

if TYPE_CHECKING:
    from jobwire.registry.store import RecordStore

# The record's own field with the job's pane.
PANE = "tmux"
# What tmux sets for its panes: the caller's own would name another pane and another terminal.
PANE_VARIABLES = frozenset({"TMUX", "TMUX_PANE", "TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION"})
_SIZE_VARIABLES = frozenset({"COLUMNS", "LINES"})
_PANE_ID = re.compile(r"%[0-9]{1,9}")
# Sessions come and go beside us, and so does the server: each try looks again.
_TRIES = 40
_AGAIN_SECONDS = 0.05
# A server that is stopped (SIGSTOP) answers nobody.
_ANSWER_SECONDS = 10.0
_SHOWN = "#{pane_id} #{pane_pid} #{socket_path}"
# The oldest that is known to work.
OLDEST = (3, 0)
# In blocks of 512 bytes (ulimit, POSIX): what a pane's recorded output may come to.
_MAX_RECORDED = 512 * 1024
# One pane a line; what may hold anything stands last. Formats that a tmux does not know are empty.
_SEEN = "\t".join(
    f"#{{{name}}}"
    for name in (
        "pane_id", "pane_pid", "pid", "start_time", "window_activity", "pane_in_mode", "pane_dead",
        "cursor_x", "cursor_y", "bracket_paste_flag", "session_name", "pane_start_command",
    )
)  # fmt: skip


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


class PaneSeen(NamedTuple):
    """A pane as tmux shows it. `server`: which run of the server; `activity`: second of its last output.

    `brackets` tells whether its program takes pasted text in brackets; None where this tmux cannot say.
    """

    pane: str
    pid: int
    server: str
    activity: int
    in_mode: bool
    dead: bool
    cursor: tuple[int, int]
    brackets: bool | None
    session: str
    start_command: str

    def runs(self, pid: int, life: str) -> bool:
        """Tell whether the process in it is that life of that number."""
        return not self.dead and self.pid == pid and life_of(pid) == life

    @classmethod
    def of(cls, line: str) -> Self | None:
        """Return the pane of a line; None for what is none."""
        parts = line.split("\t", 11)
        if len(parts) != 12 or not _PANE_ID.fullmatch(parts[0]):  # noqa: PLR2004 - as many as are asked for
            return None
        pane, pid, server, started, activity, mode, dead, x, y, brackets, session, command = parts
        try:
            return cls(
                pane,
                int(pid),
                f"{server}.{started}",
                int(activity or 0),
                mode not in {"", "0"},
                dead == "1",
                (int(x or 0), int(y or 0)),
                None if brackets == "" else brackets == "1",
                session,
                command,
            )
        except ValueError:
            return None


def note_pane(store: "RecordStore", job_id: str, pane: Pane) -> None:
    """Keep in the job's record where it is found (`jobwire attach`). Raises as `RecordStore.locked`."""
    with store.locked(job_id) as locked:
        extra = {**locked.record.extra, PANE: pane._asdict()}
        locked.replace(locked.record._replace(extra=extra), cause="in a pane")


def check_socket_name(name: str) -> str:
    """Return a name of a server as tmux takes it, which is one of a file; raises InvalidInputError."""
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or "/" in name or name[0] == "-":
        raise InvalidInputError(
            f"{name[:LONGEST_NAME]!r} is not a name for a tmux socket", hint="use letters, digits, - and _"
        )
    return name


class Tmux:
    """One tmux server: the one named `socket` (`tmux -L`), else the one we are in, else the default."""

    def __init__(self, *, socket: str | None = None, path: str | None = None) -> None:
        program = shutil.which("tmux")
        if program is None:
            raise ConfigError("tmux is not installed", hint="apt-get install tmux, or run without --tmux")
        self._clock = SystemClock()
        # -u: what is not ASCII, tabs among it, is printed as it is whatever the locale.
        self._words = [program, "-u"]
        if socket is not None:
            self._words += ["-L", check_socket_name(socket)]
        elif path is not None:
            self._words += ["-S", path]

    @classmethod
    def at(cls, path: str) -> Self:
        """Return the server at a socket's path, which is started there where it is gone.

        One in tmux's own folder goes by its name: after a reboot only then the folder is made (tmux(1), -L).
        """
        folder = Path(os.environ.get("TMUX_TMPDIR") or "/tmp", f"tmux-{os.getuid()}")  # noqa: S108 - tmux's own
        place = Path(path)
        return cls(socket=place.name) if place.parent == folder else cls(path=path)

    def open_window(
        self, session: str, title: str, command: Sequence[str], *, directory: Path, new: bool = False
    ) -> Pane:
        """Run `command` in a new window of `session`, which is made if it is not there: tried first if `new`.

        Any number of processes may do so at once: who loses the race for a new session adds a window
        to it. Raises ConfigError with tmux's own words.
        """
        check_session_name(session)
        window = ["new-window", "-d", "-t", f"={session}:"]
        whole = ["new-session", "-d", "-s", session, "-x", "120", "-y", "40"]
        shown = ["-n", title, "-P", "-F", _SHOWN, "--", *command]
        words = ""
        for attempt in range(2 * _TRIES):
            start = whole if attempt % 2 != new else window
            answer = self._ask([*start, *shown], directory=directory)
            if answer.returncode == 0:
                pane, pid, socket = answer.stdout.strip().split(" ", 2)
                return Pane(socket, session, pane, int(pid))
            words = answer.stderr.strip()
            if not _may_pass(words):
                break
            self._clock.sleep(_AGAIN_SECONDS * (attempt % 2))
        raise ConfigError(f"tmux refused: {words}", hint="see `tmux ls`")

    def version(self) -> tuple[int, int]:
        """Return the version; raises ConfigError for one that is too old."""
        words = self._ask(["-V"]).stdout
        found = re.search(r"(\d{1,4})\.(\d{1,4})", words)
        # A build from the source calls itself master: newer than any number.
        number = (int(found[1]), int(found[2])) if found else (99, 0)
        if number < OLDEST:
            raise ConfigError(
                f"{words.strip()} is too old", hint=f"sessions need tmux {OLDEST[0]}.{OLDEST[1]} or newer"
            )
        return number

    def panes(self) -> dict[str, PaneSeen]:
        """Return all panes of the server by id, by one call; none where there is no server."""
        answer = self._ask(["list-panes", "-a", "-F", _SEEN])
        found = map(PaneSeen.of, answer.stdout.split("\n"))
        return {seen.pane: seen for seen in found if seen is not None}

    def look(self, pane: str) -> PaneSeen | None:
        """Return one pane; None where it is gone."""
        return self.view(pane)[0]

    def view(self, pane: str) -> tuple[PaneSeen | None, list[str]]:
        """Return one pane and the lines that it shows, by one call; None and nothing where it is gone."""
        look = ["display-message", "-p", "-t", pane, _SEEN, ";", "capture-pane", "-p", "-t", pane]
        first, *lines = self._ask(look).stdout.split("\n")
        seen = PaneSeen.of(first)
        # For a pane that is gone some versions show another one.
        return (seen, lines) if seen is not None and seen.pane == pane else (None, [])

    def screens(self, panes: Sequence[str]) -> dict[str, list[str]]:
        """Return what several panes show, by one call; those that are gone show nothing."""
        mark = secrets.token_hex(8)
        words: list[str] = []
        for pane in panes:
            words += ["display-message", "-p", "-t", pane, f"{mark} {pane}", ";"]
            words += ["capture-pane", "-p", "-t", pane, ";"]
        shown: dict[str, list[str]] = {pane: [] for pane in panes}
        lines: list[str] = []
        for line in self._ask(words[:-1]).stdout.split("\n") if words else []:
            if line.startswith(f"{mark} "):
                lines = shown.get(line.removeprefix(f"{mark} "), [])
            else:
                lines.append(line)
        return shown

    def paste(self, pane: str, text: str) -> bool:
        """Paste a text as a person does, in brackets where the program takes them; False where it is gone."""
        buffer = f"jobwire-{secrets.token_hex(4)}"
        load = ["load-buffer", "-b", buffer, "-"]
        paste = ["paste-buffer", "-d", "-p", "-b", buffer, "-t", pane]
        answer = self._ask([*load, ";", *paste], given=text)
        if answer.returncode != 0:
            self._ask(["delete-buffer", "-b", buffer])
        return answer.returncode == 0

    def press(self, pane: str, *keys: str) -> bool:
        """Press keys by tmux's names for them; False where the pane is gone."""
        return self._ask(["send-keys", "-t", pane, *keys]).returncode == 0

    def record(self, pane: str, path: Path) -> bool:
        """Append what the pane prints to a file, up to a bound; False where the pane is gone.

        The command is a shell's, and a format with times before that (tmux(1), pipe-pane).
        """
        path.touch(mode=0o600)
        command = f"ulimit -f {_MAX_RECORDED}; exec cat >> {shlex.quote(str(path))}"
        quoted = command.replace("#", "##").replace("%", "%%")
        return self._ask(["pipe-pane", "-t", pane, quoted]).returncode == 0

    def close_pane(self, pane: str) -> None:
        """Close the pane; its process gets SIGHUP."""
        self._ask(["kill-pane", "-t", pane])

    def holds(self, pane: Pane) -> bool:
        """Tell whether the pane is still there, with the same process in it."""
        seen = self.look(pane.pane)
        return seen is not None and seen.pid == pane.pid

    def switch(self, pane: Pane) -> None:
        """Show the pane in the client that we run in. Raises ConfigError with tmux's own words."""
        answer = self._ask(["switch-client", "-t", pane.pane])
        if answer.returncode != 0:
            raise ConfigError(f"tmux refused: {answer.stderr.strip()}")

    def attach(self, pane: Pane) -> None:
        """Show the pane in this terminal until the person detaches or the session ends."""
        look = ["select-window", "-t", pane.pane, ";", "select-pane", "-t", pane.pane]
        subprocess.run([*self._words, *look, ";", "attach-session", "-t", f"={pane.session}"], check=False)

    def _ask(
        self, words: list[str], *, directory: Path | str = "/", given: str | None = None
    ) -> "subprocess.CompletedProcess[str]":
        try:
            return subprocess.run(
                [*self._words, *words],
                cwd=directory,
                input=given,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
                timeout=_ANSWER_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise ConfigError(
                f"tmux did not answer within {_ANSWER_SECONDS:g} s",
                hint="see what its server does: ps -C tmux",
            ) from error


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
