"""What crosses the wire from now on, where this host keeps a journal."""

import contextlib
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from jobwire.core.errors import JobwireError
from jobwire.core.topics import Topics
from jobwire.dashboard.figures import JournalEnd
from jobwire.jobs.admission import ACCEPTED, Rejected, parse
from jobwire.jobs.event import Event
from jobwire.jobs.fact import FACT, decode_fact
from jobwire.journal.entry import Stored
from jobwire.journal.errors import JournalNotFound
from jobwire.journal.evidence import SUPPRESSED
from jobwire.journal.reader import JournalReader

_MAX_ROWS = 2000
Warn = Callable[[str], None]


class Arrival(NamedTuple):
    """An accepted event, and when it arrived (epoch seconds)."""

    event: Event
    at: float


class JournalTail:
    """Follows the journal in `directory`; where there is none it waits for one to appear.

    `verdicts`, `events` and `facts` count since this process began to look, `offset` is where it
    stands (-1 without a journal).
    """

    def __init__(self, directory: Path, *, warn: Warn) -> None:
        self._directory = directory
        self._warn = warn
        self._reader: JournalReader | None = None
        self._said = ""
        self._identity = ""
        self.offset = -1
        self.verdicts: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self.facts: Counter[str] = Counter()

    def open(self) -> None:
        """Stand at the journal's end: what lies before it is in the records. Never raises."""
        try:
            self._reader = JournalReader(self._directory)
            self.offset = self._reader.durable_offset
            self._identity = self._reader.identity
        except JournalNotFound:
            self.close()
        except JobwireError as error:
            self._fail(error)

    @property
    def end(self) -> JournalEnd:
        """Return which journal this is and where it was looked at last."""
        return JournalEnd(self._identity, self.offset)

    def poll(self) -> list[Arrival]:
        """Return accepted events that arrived since the last call, at most some thousands; never waits."""
        if self._reader is None:
            self.open()
        if self._reader is None:
            return []
        try:
            stored = self._reader.read(self.offset, max_rows=_MAX_ROWS)
        except JobwireError as error:
            # Cut by retention, damaged or made anew: the records know the state, go on at the end.
            self._fail(error)
            return []
        arrivals = []
        for entry in stored:
            if entry.verdict == FACT:
                self.facts[_kind(entry)] += 1
                continue
            self._count(entry)
            if entry.verdict == ACCEPTED and (event := _event(entry)) is not None:
                self.events[event.event] += 1
                arrivals.append(Arrival(event, entry.received_at_us / 1_000_000))
        if stored:
            self.offset = stored[-1].offset + 1
        return arrivals

    def close(self) -> None:
        """Close the files; the next `poll` opens them again."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None
        self.offset = -1

    def _count(self, entry: Stored) -> None:
        if entry.verdict != SUPPRESSED:
            self.verdicts[entry.verdict] += 1
            return
        # In a flood of refusals one entry stands for many: a JSON object of reason to number.
        with contextlib.suppress(ValueError, AttributeError, RecursionError):
            for reason, count in json.loads(entry.payload).items():
                self.verdicts[str(reason)] += count if type(count) is int else 0

    def _fail(self, error: JobwireError) -> None:
        if self._said != error.message:
            self._said = error.message
            self._warn(str(error))
        self.close()


def _kind(entry: Stored) -> str:
    """Return the kind of a fact, "" where it is none."""
    fact = decode_fact(entry.payload, job_id=(entry.topic.split("/")[-2:] or [""])[0])
    return str(fact.kind) if fact is not None else ""


def _event(entry: Stored) -> Event | None:
    """Return the event of an entry that the recorder has verified."""
    root = entry.topic.rsplit("/", 2)[0]
    try:
        parsed = parse(Topics(root), entry.topic, entry.payload)
    except JobwireError:
        return None
    return None if isinstance(parsed, Rejected) else parsed.event
