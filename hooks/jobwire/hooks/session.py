"""An agent that lives in a session: which job it has now, and by which conversation it is brought back."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from jobwire.coordination.sessions.inventory import Inventory
from jobwire.coordination.store import CoordinationStore
from jobwire.storage.home import find_home

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobwire.hooks.signs import Said


def job_of(home: str, session: str) -> str:
    """Return the job that the session hosts; "" for none."""
    with closing(CoordinationStore(home)) as store:
        row = Inventory(store).find(session)
    return row.job_id or "" if row is not None else ""


def note_conversation(environ: Mapping[str, str], said: Said, *, home: str | None = None) -> None:
    """Keep the agent's own id of its conversation, which `jobwire sessions resume` goes on with."""
    with closing(CoordinationStore(find_home(home, environ))) as store:
        inventory = Inventory(store)
        row = inventory.find(environ["JOBWIRE_SESSION"])
        if row is not None and said.conversation and row.conversation != said.conversation:
            inventory.note_conversation(row.name, said.conversation)
