"""The recorder's question about each message: which verdict stands beside it in the journal.

The rule itself is `jobwire.jobs.admission`, and who has the keys answers (`registry/wire.py`). Without keys,
`unverified` records everything for a later check by readers that have them.
"""

from collections.abc import Callable
from typing import NamedTuple

from jobwire.core.ports import Message
from jobwire.jobs.event import Event

UNVERIFIED = "unverified"
# The job's record could not be read: the message is kept as it came, and judged when it can be.
UNDECIDED = "undecided"


class Judged(NamedTuple):
    """What was decided about a message.

    `event` is given where the signature was good. `keep` says that it must be in the journal whatever
    the budget for evidence is. `missing` are the seqs that this event shows to be missing before it.
    """

    verdict: str
    why: str = ""
    event: Event | None = None
    keep: bool = False
    missing: range = range(0)


Admit = Callable[[Message], Judged]


def unverified(message: Message) -> Judged:  # noqa: ARG001 - the signature of Admit
    """Judge nothing: for a recorder without keys; its readers verify from the stored bytes."""
    return Judged(UNVERIFIED, keep=True)
