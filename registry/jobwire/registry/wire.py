"""Admission for the recorder of the registry process, and the repair of gaps it finds.

See `views` for what a message is judged against.
"""

import logging
from collections.abc import Callable, Collection, Iterable

from jobwire.core.canonical import canonical_json
from jobwire.core.errors import StorageError
from jobwire.core.ports import Message
from jobwire.core.token_bucket import TokenBucket
from jobwire.core.topics import Topics
from jobwire.jobs.admission import ACCEPTED, Accepted, Parsed, Reason, digest_of, judge, parse
from jobwire.journal.admission import UNDECIDED, Judged
from jobwire.journal.entry import Entry
from jobwire.journal.writer import JournalWriter
from jobwire.registry.journaled import Journaled
from jobwire.registry.store import RecordStore
from jobwire.registry.views import AdmissionState, Views

_MICROSECONDS = 1_000_000
# Lines about gaps: a worker that skips every other seq must not fill the log.
_LOG_BURST = 5
_LOG_PER_SECOND = 0.1
_log = logging.getLogger("jobwire.registry")


class WireAdmission:
    """Judges each message once and notes what it accepts; `jobwire.journal.admission.Admit`."""

    def __init__(self, *, topics: Topics, views: Views) -> None:
        self._topics = topics
        self._views = views

    def __call__(self, message: Message) -> Judged:
        """Return the verdict on `message`."""
        parsed = parse(self._topics, message.topic, message.payload)
        if not isinstance(parsed, Parsed):
            return Judged(parsed.reason, parsed.why)
        # The fold takes note of what it wrote, in other threads.
        with self._views.guard:
            if self._views.is_undecided(parsed.job_id):
                return self._undecided(parsed.job_id, message)
            try:
                return self._decided(parsed, message)
            except StorageError as error:
                _log.error("%s; its messages are kept and judged when it can be read", error)
                return self._undecided(parsed.job_id, message)

    def _decided(self, parsed: Parsed, message: Message) -> Judged:
        state = self._views.get(parsed.job_id)
        if state is None:
            return Judged(Reason.UNKNOWN_JOB, f"no job {parsed.job_id} here")
        judged = judge_event(parsed, message.payload, retained=message.retain, state=state)
        if judged.keep or judged.verdict == Reason.DUPLICATE or state.settled:
            return judged
        # The record may have changed within one tick of the file system's clock.
        state = self._views.reread(parsed.job_id)
        if state is None:
            return judged
        return judge_event(parsed, message.payload, retained=message.retain, state=state)

    def _undecided(self, job_id: str, message: Message) -> Judged:
        """Keep it: what is in the journal may be acknowledged, and is judged when it is folded."""
        kept = self._views.undecided(job_id, len(message.payload))
        return Judged(UNDECIDED, f"job {job_id} cannot be read", keep=kept)


def judge_event(parsed: Parsed, payload: bytes, *, retained: bool, state: AdmissionState) -> Judged:
    """Return the verdict on a message of a job, and take note of it in `state`."""
    event = parsed.event
    digest = digest_of(payload)
    if state.unjournaled.get(event.seq) == digest:
        first = state.first_unjournaled
        state.journal_local(event.seq)
        return Judged(ACCEPTED, "", event, keep=True, missing=range(first, event.seq))
    view = state.view
    last = view.last_seq
    verdict = judge(parsed, payload, retained=retained, job=view)
    if isinstance(verdict, Accepted):
        state.accept(event, verdict.digest)
        return Judged(ACCEPTED, "", event, keep=True, missing=range(last + 1, event.seq))
    if verdict.reason is Reason.LATE and verdict.event is not None:
        view.remember(event.seq, verdict.digest)
        return Judged(verdict.reason, verdict.why, verdict.event, keep=True)
    return Judged(verdict.reason, verdict.why, verdict.event)


def decide(entries: Iterable[Journaled], state: AdmissionState) -> list[Journaled]:
    """Return the entries of a job with a verdict for each that had none; `state` is as its record is.

    As each would have been judged when it came: entries that were judged are taken note of in between.
    """
    decided = []
    for entry in entries:
        one = entry
        if entry.parsed is not None and entry.verdict == UNDECIDED:
            judged = judge_event(entry.parsed, entry.payload, retained=entry.retained, state=state)
            one = entry._replace(verdict=str(judged.verdict), why=judged.why)
        elif entry.parsed is not None and entry.verdict == ACCEPTED:
            event = entry.parsed.event
            if event.seq > state.view.last_seq:
                state.accept(event, digest_of(entry.payload))
        decided.append(one)
    return decided


class GapRepair:
    """Journals events from a job's history that did not come over the wire. From the recorder's thread.

    They were accepted before (by the publisher on this disk), so they go into the journal as such.
    """

    def __init__(
        self,
        *,
        store: RecordStore,
        views: Views,
        topics: Topics,
        writer: JournalWriter,
        on_journaled: Callable[[], None],
    ) -> None:
        self._store = store
        self._views = views
        self._topics = topics
        self._writer = writer
        self._on_journaled = on_journaled
        self._lines = TokenBucket(burst=_LOG_BURST, per_second=_LOG_PER_SECOND)
        self._untold = 0

    def __call__(self, job_id: str, missing: range) -> None:
        """Journal what the history holds of `missing`; the rest must come from its worker's outbox."""
        try:
            state = self._views.get(job_id)
        except StorageError as error:
            _log.error("%s; its gaps wait until it can be read", error)
            return
        if state is None:
            return
        with self._views.guard:
            wanted = {seq for seq in state.unjournaled if seq in missing}
            first, count = state.view.missing.within(missing.start, missing.stop - 1)
        if wanted:
            self.journal(job_id, state, wanted)
        if count:
            self._tell_lost(job_id, first, count)

    def _tell_lost(self, job_id: str, first: int, count: int) -> None:
        if not self._lines.take(1, self._store.clock.monotonic()):
            self._untold += 1
            return
        more, self._untold = self._untold, 0
        _log.warning(
            "job %s: %d event(s) from seq %d on did not arrive and are not held here; its worker sends "
            "them again from its outbox%s",
            job_id,
            count,
            first,
            f" (and {more} more gaps since the last line)" if more else "",
        )

    def journal(self, job_id: str, state: AdmissionState, wanted: Collection[int]) -> None:
        """Journal the accepted events with these seqs from the history.

        On a full disk, or where the history cannot be read, they wait: their outbox sends them again, and
        so does the next start.
        """
        try:
            entries = self._of_history(job_id, state, wanted)
        except StorageError as error:
            _log.error("job %s: %d event(s) wait: %s", job_id, len(wanted), error)
            return
        if not entries:
            return
        try:
            self._writer.append(list(entries.values()))
        except StorageError as error:
            if not error.facts.get("disk_full"):
                raise
            _log.error("job %s: %d event(s) wait for room: %s", job_id, len(entries), error.message)
            return
        with self._views.guard:
            for seq in entries:
                state.journal_local(seq)
        _log.info("job %s: %d event(s) journaled from its history", job_id, len(entries))
        self._on_journaled()

    def _of_history(self, job_id: str, state: AdmissionState, wanted: Collection[int]) -> dict[int, Entry]:
        entries: dict[int, Entry] = {}
        topic, now_us = self._topics.events(job_id), int(self._store.clock.now() * _MICROSECONDS)
        for line in self._store.audit(job_id).lines():
            seq, event = line.get("seq"), line.get("event")
            if line.get("verdict") != ACCEPTED or type(seq) is not int or not isinstance(event, dict):
                continue
            if seq in wanted and seq in state.unjournaled:
                entries.setdefault(seq, Entry(now_us, topic, canonical_json(event), False, ACCEPTED))
        return entries
