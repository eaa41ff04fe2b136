"""What the registry process knows of each job, for admission: record, history, and what is on its way.

An event reaches the wire after the publisher on this disk put it into record and history, or, from
another host, before it is there. So a message is judged against both: what the history holds and the
journal does not is accepted by its digest (it was verified when it was applied), anything else is
judged by the one rule of `core.admission` against the present record plus what was accepted since.
"""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from jobwire.core.errors import NotFoundError
from jobwire.jobs.admission import ACCEPTED, Accepted, JobView, Reason
from jobwire.jobs.event import Event
from jobwire.jobs.lifecycle import EVENT_TRANSITIONS, TERMINAL_STATUSES, Status
from jobwire.jobs.record import JobRecord
from jobwire.registry import quarantine, seqs
from jobwire.registry.audit import AuditLog, Line
from jobwire.registry.journaled import ahead_of
from jobwire.registry.layout import Stamp
from jobwire.registry.store import RecordStore
from jobwire.storage.failures import storage_failure

MAX_JOBS = 4096
# Nobody can tell who signed them, so a stranger may fill this: it is far more than a job says in a day.
MAX_UNDECIDED_BYTES = 64 << 20
# Digests kept of a job's folded events. Redeliveries come from the broker's in-flight window; of an older
# event only the reason differs (`replayed` instead of `duplicate`).
_RECENT = 128
_TAIL_LINES = 128
# Far more than the time between two readings of the clock that stamps files.
_TICK_NS = 100_000_000
# The verdicts of events that the history has taken in.
_HELD = frozenset({ACCEPTED, str(Reason.LATE)})


class AdmissionFields(NamedTuple):
    """The fields of a record that admission needs (instructions and results would fill the memory)."""

    token: str
    attempt: int
    attempt_seq: int
    status: Status
    last_seq: int
    confirmed_seq: int
    ahead: seqs.Ranges

    def journaled(self, seq: int) -> bool:
        """Tell whether the event was folded from the journal."""
        return seq <= self.confirmed_seq or seqs.contains(self.ahead, seq)


def admission_fields(record: JobRecord) -> AdmissionFields:
    """Return what admission needs of `record`."""
    return AdmissionFields(
        record.auth_token,
        record.attempt,
        record.attempt_seq,
        record.status,
        record.last_seq,
        record.confirmed_seq,
        ahead_of(record),
    )


class AdmissionState:
    """One job as admission sees it.

    `unjournaled`: digests of events in the history that the journal does not hold. `local`: seqs that
    were such and are in the journal now, but not yet folded. `in_flight`: the kinds of those accepted from
    the wire and not yet folded. `settled`: the record was read long enough after its time stamp that a
    later change has another one.
    """

    def __init__(self, fields: AdmissionFields, stamp: Stamp) -> None:
        self.fields = fields
        self.stamp = stamp
        self.audit_offset = 0
        self.settled = False
        # In the order of the history; the first one is asked for with each event of it.
        self.unjournaled: OrderedDict[int, bytes] = OrderedDict()
        self.local: set[int] = set()
        self.in_flight: dict[int, str] = {}
        self.view = JobView(token=fields.token)

    def accept(self, event: Event, digest: bytes) -> None:
        """Note an event that was accepted from the wire."""
        self.view.accept(Accepted(event, digest))
        self.in_flight[event.seq] = event.event

    @property
    def first_unjournaled(self) -> int:
        """Return the first of `unjournaled`, of which there is one."""
        return next(iter(self.unjournaled))

    def journal_local(self, seq: int) -> None:
        """Note that an event of the history goes into the journal now."""
        del self.unjournaled[seq]
        self.local.add(seq)

    def read_line(self, line: Line) -> None:
        """Take in one line of the history."""
        seq, digest = line.get("seq"), line.get("digest")
        if line.get("kind") != "event" or line.get("verdict") not in _HELD:
            return
        if type(seq) is not int or not isinstance(digest, str):
            return
        try:
            raw = bytes.fromhex(digest)
        except ValueError:
            return  # damaged by hand or disk
        if line["verdict"] == ACCEPTED and not self.is_journaled(seq):
            self.unjournaled[seq] = raw
        if self.view.seen(seq) is None:
            self.view.remember(seq, raw)

    def is_journaled(self, seq: int) -> bool:
        """Tell whether the journal holds the event, folded or not."""
        return seq in self.local or seq in self.in_flight or self.fields.journaled(seq)

    def follow(self, fields: AdmissionFields) -> None:
        """Take over what a record of the same attempt says now."""
        self.fields = fields
        view = self.view
        view.token = fields.token
        view.attempt_seq = fields.attempt_seq
        view.last_seq = max(view.last_seq, fields.last_seq)
        # What is folded is confirmed or beyond a gap, also where it crossed with a cancellation.
        self.in_flight = {
            seq: kind
            for seq, kind in self.in_flight.items()
            if seq > fields.last_seq and not fields.journaled(seq)
        }
        self.local = {seq for seq in self.local if not fields.journaled(seq)}
        self.unjournaled = OrderedDict(
            (seq, digest) for seq, digest in self.unjournaled.items() if not self.is_journaled(seq)
        )
        status = fields.status
        for seq in sorted(self.in_flight):
            if status not in TERMINAL_STATUSES:
                status = EVENT_TRANSITIONS.get((status, self.in_flight[seq]), status)
        view.status = status


class Views:
    """The jobs that were spoken of lately, each as fresh as its record. Thread-safe under `guard`.

    Bounded: the job that was not spoken of for the longest time is forgotten, unless something of it
    is on its way into the record, and read from the disk when it speaks again.

    A job is `undecided` from the first of its messages that could not be judged until all of those are
    folded, so that none is judged before an earlier one.
    """

    def __init__(self, store: RecordStore, *, max_jobs: int = MAX_JOBS) -> None:
        self._store = store
        self._max_jobs = max_jobs
        # Of messages that were not judged: how many, and how many bytes.
        self._undecided: dict[str, tuple[int, int]] = {}
        # Tells, in any thread, whether a job's entries wait in the journal because its record cannot be read.
        self.is_held: Callable[[str], bool] = lambda _: False
        # When the folder changed that was listed, and who stood there.
        self._in_quarantine: tuple[int, frozenset[str]] = (-1, frozenset())
        self._jobs: OrderedDict[str, AdmissionState] = OrderedDict()
        # Held by whoever reads or changes what `get` returned: recorder and fold do.
        self.guard = threading.RLock()

    def get(self, job_id: str) -> AdmissionState | None:
        """Return the job as its record is now; None where there is none.

        Costs one stat where nothing changed. Raises StorageError where that cannot be told: the record, or
        the history with it, is there and cannot be read.
        """
        with self.guard:
            stamp = self._store.record_stamp(job_id)
            state = self._jobs.get(job_id)
            if stamp is None:
                self._jobs.pop(job_id, None)
                if job_id in self._quarantined():
                    self._store.require(job_id)  # raises: it stands in quarantine
                return None
            if state is None or state.stamp != stamp:
                # What stamps the file is the system's clock.
                settled = time.time_ns() - stamp[1] > _TICK_NS
                state = self._read(job_id, state, stamp)
                if state is not None:
                    state.settled = settled
            if state is not None:
                self._jobs[job_id] = state
                self._jobs.move_to_end(job_id)
                self._forget_old()
            return state

    def reread(self, job_id: str) -> AdmissionState | None:
        """Return the job after reading its record again, whatever its time stamp says."""
        with self.guard:
            state = self._jobs.get(job_id)
            if state is not None:
                state.stamp = (0, 0, 0)
            return self.get(job_id)

    def folded(self, record: JobRecord) -> None:
        """Note that `record` was just written by the fold, under its lock."""
        with self.guard:
            state = self._jobs.get(record.job_id)
            if state is None or state.fields.token != record.auth_token:
                return
            state.follow(admission_fields(record))
            state.view.forget(_RECENT)
            stamp = self._store.record_stamp(record.job_id)
            if stamp is not None:
                state.stamp, state.settled = stamp, False

    def is_local(self, job_id: str, seq: int) -> bool:
        """Tell whether the event was in the record before it was in the journal."""
        with self.guard:
            state = self._jobs.get(job_id)
            return state is not None and seq in state.local

    def __len__(self) -> int:
        return len(self._jobs)

    def is_undecided(self, job_id: str) -> bool:
        """Tell whether messages of the job wait to be judged."""
        with self.guard:
            return self.is_held(job_id) or job_id in self._undecided

    def undecided(self, job_id: str, size: int) -> bool:
        """Note one more message that waits to be judged; False where there are too many bytes of them."""
        with self.guard:
            count, total = self._undecided.get(job_id, (0, 0))
            if total + size > MAX_UNDECIDED_BYTES:
                return False
            self._undecided[job_id] = (count + 1, total + size)
            return True

    def decided(self, job_id: str, sizes: Sequence[int]) -> None:
        """Note that as many messages, of these sizes, were judged."""
        with self.guard:
            count, total = self._undecided.pop(job_id, (0, 0))
            if count > len(sizes):
                self._undecided[job_id] = (count - len(sizes), max(0, total - sum(sizes)))
            state = self._jobs.get(job_id)
            if state is not None and not state.in_flight and not state.local:
                del self._jobs[job_id]  # it has not seen them

    def _quarantined(self) -> frozenset[str]:
        """Return the jobs that stand in quarantine; one stat where nothing changed."""
        folder = f"{self._store.jobs_path()}/{quarantine.FOLDER}"
        try:
            changed_at = os.stat(folder).st_mtime_ns  # noqa: PTH116 - asked for every unknown job's message
        except FileNotFoundError:
            return frozenset()
        except OSError as error:
            raise storage_failure("look for", folder, error) from error
        settled = time.time_ns() - changed_at > _TICK_NS
        if self._in_quarantine[0] != changed_at:
            found = frozenset(item.job_id for item in quarantine.find(self._store.jobs_path()))
            self._in_quarantine = (changed_at if settled else -1, found)
        return self._in_quarantine[1]

    def _read(self, job_id: str, state: AdmissionState | None, stamp: Stamp) -> AdmissionState | None:
        try:
            record = self._store.get(job_id)
        except NotFoundError:
            return None
        fields = admission_fields(record)
        log = self._store.audit(job_id)
        if state is None or state.fields.token != fields.token:
            # Journaled for the earlier attempt; its history says the rest. Or another job came under this id.
            earlier = state is not None and state.fields.attempt < fields.attempt
            return load(log, fields, stamp, local=state.local if state is not None and earlier else set())
        state.follow(fields)
        _read_history(log, state)
        state.stamp = stamp
        return state

    def _forget_old(self) -> None:
        if len(self._jobs) <= self._max_jobs:
            return
        for job_id, state in self._jobs.items():
            if not state.in_flight and not state.local:
                del self._jobs[job_id]
                return


def load(
    log: AuditLog, fields: AdmissionFields, stamp: Stamp = (0, 0, 0), *, local: set[int]
) -> AdmissionState:
    """Return a job as its record and its history show it. Raises StorageError."""
    state = AdmissionState(fields, stamp)
    state.local = local
    state.audit_offset = log.start_of_tail(_TAIL_LINES)
    first = _first_held(log, state.audit_offset) if state.audit_offset else 1
    if first is None or first > fields.confirmed_seq + 1:
        state.audit_offset = 0  # what the journal lacks reaches back further than the tail
        first = 1
    state.view = JobView(
        token=fields.token,
        status=fields.status,
        attempt=fields.attempt,
        attempt_seq=fields.attempt_seq,
        last_seq=max(first - 1, 0),
    )
    _read_history(log, state)
    return state


def _read_history(log: AuditLog, state: AdmissionState) -> None:
    """Read the lines that are new; those ahead of the record are left for the next time."""
    fields, view = state.fields, state.view
    for line, end in log.since(state.audit_offset):
        seq = line.get("seq")
        if line.get("verdict") == ACCEPTED and type(seq) is int and seq > fields.last_seq:
            break
        attempt = line.get("attempt")
        view.attempt = attempt if type(attempt) is int else fields.attempt
        state.read_line(line)
        state.audit_offset = end
    view.attempt = fields.attempt
    view.last_seq = max(view.last_seq, fields.last_seq)


def _first_held(log: AuditLog, offset: int) -> int | None:
    """Return the seq of the first event that the history has taken in from byte `offset` on, if any.

    Refused ones do not count: an event that came before a lost one may be refused and come again.
    """
    for line, _ in log.since(offset):
        if type(line.get("seq")) is int and line.get("verdict") in _HELD:
            return int(line["seq"])
    return None
