"""Who holds a file that an agent is about to change."""

from __future__ import annotations

import os
import shlex
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.locks.file_locks import Locks
from jobwire.coordination.locks.targets import canonical
from jobwire.coordination.store import CoordinationStore
from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import InvalidInputError

if TYPE_CHECKING:
    from jobwire.coordination.locks.stored import FileLock
    from jobwire.hooks.desk import Desk
    from jobwire.hooks.signs import Said


class Held(NamedTuple):
    """A file that somebody else holds, in words for people and for the agent."""

    path: str
    short: str
    words: str


def holder_of(desk: Desk, said: Said) -> Held | None:
    """Return who holds one of the files that the tool changes; None where the agent may change them."""
    with closing(CoordinationStore(desk.home)) as store:
        found = _conflicts(store, desk.agent, said)
    if not found:
        return None
    lock = found[0]
    until = utc_timestamp(lock.lease_until_ms / 1000)
    short = f"{lock.target} is held by {lock.agent_id} until {until}"
    return Held(
        lock.target,
        short,
        f"{short}. Do something else first, or wait for it: `jobwire lock wait {shlex.quote(lock.target)}"
        " --timeout-seconds 600`, and then try again. Do not change it in another way.",
    )


def _conflicts(store: CoordinationStore, agent: str, said: Said) -> list[FileLock]:
    """Return the locks of others on the files, in whatever run they are held."""
    locks = Locks(store)
    folder = said.directory or os.getcwd()  # noqa: PTH109 - start-up
    found: list[FileLock] = []
    for run_id in sorted({lock.run_id for lock in locks.state().locks}):
        for (root,) in store.rows("run_root", {"run_id": run_id}):
            targets = [name for path in said.paths if (name := _target(path, str(root), folder))]
            found += locks.conflicts(agent, targets, run_id=run_id) if targets else []
    return found


def _target(path: str, root: str, folder: str) -> str:
    try:
        return canonical(path, root=root, folder=folder)
    except InvalidInputError:
        return ""  # outside of what the run works on: nobody locks it
