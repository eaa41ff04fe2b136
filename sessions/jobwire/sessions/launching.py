"""How a process gets into a pane: what it is told travels in a 0600 file, not in argv or tmux' variables."""

import json
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from jobwire.coordination.sessions.names import folder_name
from jobwire.core.errors import ConfigError, InvalidInputError
from jobwire.runner.tmux import for_pane
from jobwire.storage.durable import make_directories, replace_durably
from jobwire.storage.files import SystemFiles
from jobwire.storage.home_paths import HomePaths

# By its path, isolated, without site-packages: it needs nothing but Python, and is there at once.
_PROGRAM = [sys.executable, "-I", "-S", str(Path(__file__).with_name("launched.py"))]
HELD = ".held"
FAILED = ".failed"
# What says whose words these are: a pane's agent is none of the caller's jobs.
_OF_THE_CALLER = frozenset(
    {"JOBWIRE_JOB", "JOBWIRE_ATTEMPT", "JOBWIRE_LEASE", "JOBWIRE_TICKET", "JOBWIRE_INCARNATION"}
)


class Launch(NamedTuple):
    """A process that is about to start in a session's pane. `kind` is its agent's name in the table."""

    kind: str
    command: list[str]
    environment: dict[str, str]
    directory: str
    session: str
    home: str
    conversation: str = ""


# Kind of agent -> whose hooks it is given, for one launch only (settings, a plugin's folder).
HOOKED = {
    "claude": "claude",
    "claude-print": "claude",
    "codex": "codex",
    "codex-exec": "codex",
    "opencode": "opencode",
}


def reports_by_itself(kind: str, command: Sequence[str]) -> bool:
    """Tell whether an agent that lives on says by its own hooks what it does: it needs no word of ours."""
    from jobwire.hooks.injection import starts  # noqa: PLC0415 - of agents with hooks only

    return kind in HOOKED and starts(kind, command)


def adapted(launch: Launch) -> Launch:
    """Return the launch with our hooks in the agent; as it is where its command is another program's."""
    from jobwire.hooks.injection import injected, starts  # noqa: PLC0415 - as above

    agent = HOOKED.get(launch.kind)
    if agent is None or not starts(agent, launch.command):
        return launch
    folder = session_folder(launch.home, launch.session)
    command, environment = injected(agent, launch.command, launch.environment, folder)
    return launch._replace(command=command, environment=environment)


def agent_environment(
    environ: Mapping[str, str], *, home: str, session: str, agent_id: str
) -> dict[str, str]:
    """Return the environment of a process in a session's pane."""
    kept = {name: value for name, value in for_pane(environ).items() if name not in _OF_THE_CALLER}
    own = {"JOBWIRE_HOME": os.path.realpath(home), "JOBWIRE_SESSION": session, "JOBWIRE_AGENT": agent_id}
    return {**kept, **own}


def session_folder(home: str, session: str) -> Path:
    """Return the session's folder, made where it is missing. Raises StorageError."""
    path = HomePaths(home).session_path(folder_name(session))
    make_directories(path, files=SystemFiles())
    return Path(path)


def check_directory(path: str) -> str:
    """Return the absolute path of a directory that is there; raises InvalidInputError."""
    if "\0" in path or not os.path.isdir(path):
        raise InvalidInputError(
            f"there is no directory {path[:200]!r}", hint="--directory DIR names another one"
        )
    return os.path.realpath(path)


def write_launch(launch: Launch) -> Path:
    """Write what the process is told, and return where it waits for that: `release` puts it there."""
    path = session_folder(launch.home, launch.session) / f"launch-{secrets.token_hex(4)}.json"
    held = path.with_name(path.name + HELD)
    replace_durably(held, json.dumps(launch._asdict()).encode(), files=SystemFiles())
    return path


def release(path: Path) -> None:
    """Let the process begin: it deletes the file before it becomes the agent."""
    path.with_name(path.name + HELD).rename(path)


def launch_command(path: Path) -> list[str]:
    """Return the command line of the process that becomes the agent of `path`."""
    return [*_PROGRAM, str(path)]


def has_begun(path: Path, pid: int) -> bool:
    """Tell whether the process has become the agent; raises ConfigError where that failed."""
    failed = path.with_name(path.name + FAILED)
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            still = os.fsencode(path) in file.read()
    except OSError:
        still = False
    # Looked at after the process: where it failed, it has written this before it ended.
    if failed.exists():
        words = failed.read_text(encoding="utf-8", errors="replace")
        failed.unlink(missing_ok=True)
        raise ConfigError(words, hint="is it installed, and in the PATH of this shell?")
    return not still


def withdraw(path: Path) -> None:
    """Remove what was written for a process that did not start."""
    for name in path.name, path.name + HELD:
        path.with_name(name).unlink(missing_ok=True)
