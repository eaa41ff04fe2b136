"""The journal's entries that are read and not folded yet, by job, and which jobs' turn it is. Pure.

Beginnings, ends and questions are folded at once. Mere progress is too while there is little of it; of
a thousand jobs that speak every second, each waits some seconds, and one write of its record takes in
all it said meanwhile. The disk is left to those for whom somebody waits.
"""

from collections import OrderedDict
from collections.abc import Sequence
from enum import IntEnum
from itertools import islice, takewhile

from jobwire.registry.journaled import Journaled

# Records a second that mere progress may write, and as many at once after a quiet second. A job that
# waits longer than PROGRESS_SECONDS, as long as a subscriber of its state does (states.py), is folded anyway.
PROGRESS_RECORDS_PER_SECOND = 200
PROGRESS_SECONDS = 5.0
# How many share a flush of the directory, where not all can go.
_PROGRESS_BATCH = 64
# What waits for its turn or for a record's lock before reading stops: entries, and bytes of their messages.
MOST_WAITING = 50_000
MOST_BYTES = 64 << 20
# How long a progress event that is in its record already may wait for its confirmation: the next one of
# the job is then confirmed by the same write.
CONFIRMATION_SECONDS = 2.0

Share = tuple[str, Sequence[Journaled]]


class Turn(IntEnum):
    """When entries are folded: at once, with other progress, or when CONFIRMATION_SECONDS have passed."""

    NOW = 0
    PROGRESS = 1
    CONFIRMATION = 2


class _Waiting:
    """One job's entries; `since` is when it took its place in the queue of its turn, monotonic seconds."""

    __slots__ = ("entries", "since", "turn")

    def __init__(self, turn: Turn, since: float) -> None:
        self.entries: list[Journaled] = []
        self.turn = turn
        self.since = since


class Backlog:
    """What waits for the fold. All times are monotonic seconds. Not thread-safe."""

    def __init__(self, now: float) -> None:
        # In the order of the jobs' first entries.
        self._jobs: OrderedDict[str, _Waiting] = OrderedDict()
        # Those that were not taken; each queue is in the order of `since`.
        self._queues: dict[Turn, OrderedDict[str, None]] = {turn: OrderedDict() for turn in Turn}
        self._put_off: dict[str, float] = {}
        self._entries = 0
        self._bytes = 0
        self._allowance = float(PROGRESS_RECORDS_PER_SECOND)
        self._earned_at = now

    def __len__(self) -> int:
        """Return the number of entries."""
        return self._entries

    @property
    def full(self) -> bool:
        """Tell whether nothing more should be read before something is folded."""
        return self._entries >= MOST_WAITING or self._bytes >= MOST_BYTES

    def first(self) -> Journaled | None:
        """Return the entry with the lowest offset."""
        return next((waiting.entries[0] for waiting in self._jobs.values()), None)

    def add(self, job_id: str, entry: Journaled, turn: Turn, now: float) -> None:
        """Put the entry, the newest of all, behind those of its job."""
        waiting = self._jobs.get(job_id)
        if waiting is None:
            waiting = self._jobs[job_id] = _Waiting(turn, now)
            self._queues[turn][job_id] = None
        elif turn < waiting.turn and job_id in self._queues[waiting.turn]:
            del self._queues[waiting.turn][job_id]
            waiting.turn, waiting.since = turn, now
            self._queues[turn][job_id] = None
        waiting.entries.append(entry)
        self._entries += 1
        self._bytes += len(entry.payload)

    def take(self, now: float, *, everything: bool = False) -> list[Share]:
        """Return the jobs whose turn it is, the most urgent first, with all their entries.

        All turns have come where `everything` is wanted, and where the backlog is full.
        They stay in the backlog until they are `done` or `put_off`; until then nothing may be added.
        """
        everything = everything or self.full
        taken = [job_id for job_id, due_at in self._put_off.items() if everything or due_at <= now]
        for job_id in taken:
            del self._put_off[job_id]
        turns = {
            Turn.NOW: len(self._queues[Turn.NOW]),
            Turn.PROGRESS: self._progress_turns(now),
            Turn.CONFIRMATION: self._older(Turn.CONFIRMATION, now - CONFIRMATION_SECONDS),
        }
        for turn, queue in self._queues.items():
            count = len(queue) if everything else turns[turn]
            taken += [queue.popitem(last=False)[0] for _ in range(count)]
        return [(job_id, self._jobs[job_id].entries) for job_id in taken]

    def done(self, job_id: str) -> int:
        """Forget the job; return how many entries it had."""
        entries = self._jobs.pop(job_id).entries
        self._entries -= len(entries)
        self._bytes -= sum(len(entry.payload) for entry in entries)
        return len(entries)

    def put_off(self, job_id: str, until: float) -> None:
        """Take note that the job could not be folded, and is to be tried again at `until`."""
        self._put_off[job_id] = until

    def _progress_turns(self, now: float) -> int:
        """Return how many jobs with mere progress may go, and count them as gone."""
        earned = max(0.0, now - self._earned_at) * PROGRESS_RECORDS_PER_SECOND
        self._earned_at = now
        self._allowance = min(PROGRESS_RECORDS_PER_SECOND, self._allowance + earned)
        waiting = len(self._queues[Turn.PROGRESS])
        allowed = min(int(self._allowance), waiting)
        if allowed < min(waiting, _PROGRESS_BATCH):
            allowed = 0
        count = max(allowed, self._older(Turn.PROGRESS, now - PROGRESS_SECONDS))
        self._allowance = max(0.0, self._allowance - count)
        return count

    def _older(self, turn: Turn, since: float) -> int:
        """Return how many jobs have waited for this turn since then or longer.

        Never more than go in a second: an end that comes meanwhile should not wait for them all.
        """
        oldest = islice(self._queues[turn], PROGRESS_RECORDS_PER_SECOND)
        ages = (self._jobs[job_id].since for job_id in oldest)
        return sum(1 for _ in takewhile(lambda age: age <= since, ages))
