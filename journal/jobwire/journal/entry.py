"""What goes into the journal and what comes out."""

from typing import NamedTuple

# Beside `accepted` and the reasons of refusals: genuine, between an agent and the store, and about no job.
AGENT_VERDICT = "agent"
# Likewise: a job's state, signed by its registry. It says what was decided, and is neither event nor refusal.
STATE_VERDICT = "state"
# In the place of an entry that damage took, for readers that go on behind it: on this topic, without payload.
DAMAGED = "damaged"
DAMAGED_TOPIC = "$jobwire/damaged"


class Entry(NamedTuple):
    """One message as it arrived, with what admission said about it.

    `received_at_us` is wall time in microseconds since the epoch. `verdict` is "accepted" or the
    reason of a refusal; any short text is stored as given. `redelivered` is the broker's DUP flag.
    """

    received_at_us: int
    topic: str
    payload: bytes
    retained: bool
    verdict: str
    redelivered: bool = False


class Stored(NamedTuple):
    """An entry at its offset: 0 for the first of a journal, then without gaps."""

    offset: int
    received_at_us: int
    topic: str
    payload: bytes
    retained: bool
    verdict: str
    redelivered: bool = False
