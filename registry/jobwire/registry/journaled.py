"""What the journal's entries make of a record. Pure, and idempotent: entries may come again.

`confirmed_seq` is how far the job's events stand in the journal without a gap: what a worker may
forget. What stands there beyond a gap is kept as ranges in the record's `journaled_ahead`, so that
nothing is journaled or counted twice when it comes again.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from jobwire.core.canonical import encode_checked
from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import TransitionError
from jobwire.core.signature import verify_bytes
from jobwire.jobs.admission import ACCEPTED, Parsed, Reason, digest_of
from jobwire.jobs.fold import apply_event
from jobwire.jobs.lifecycle import TERMINAL_STATUSES
from jobwire.jobs.record import JobRecord
from jobwire.registry import seqs
from jobwire.registry.audit import Line, event_line

AHEAD = "journaled_ahead"
SOURCE = "wire"


class Journaled(NamedTuple):
    """One entry of the journal that concerns a job.

    `parsed` is None for what was not an event. `received_at` is epoch seconds. `why` is given with a verdict
    that was found later than the entry was journaled.
    """

    offset: int
    received_at: float
    verdict: str
    payload: bytes
    parsed: Parsed | None
    retained: bool = False
    why: str = ""


class Folded(NamedTuple):
    """The record after the entries, and the lines for its history."""

    record: JobRecord
    lines: list[tuple[bytes, Line]]


def ahead_of(record: JobRecord) -> seqs.Ranges:
    """Return the seqs that are journaled beyond a gap."""
    return seqs.decode(record.extra.get(AHEAD))


def is_journaled(record: JobRecord, seq: int) -> bool:
    """Tell whether the event `seq` was folded from the journal before."""
    return seq <= record.confirmed_seq or seqs.contains(ahead_of(record), seq)


def fold_journaled(
    record: JobRecord, entries: Iterable[Journaled], *, held: Callable[[], Collection[int]]
) -> Folded:
    """Return what `entries`, in the order of the journal, make of `record`.

    `held` returns the seqs of accepted events in the job's history; it is asked only where a gap of an
    earlier attempt may be one that nobody can fill any more.
    """
    lines: list[tuple[bytes, Line]] = []
    for entry in entries:
        if entry.verdict not in {ACCEPTED, Reason.LATE}:
            if entry.verdict != Reason.DUPLICATE:
                lines.append(_line(record, entry, entry.verdict, entry.why))
            continue
        seq = entry.parsed.event.seq if entry.parsed is not None else 0
        if entry.parsed is None or is_journaled(record, seq):
            continue
        if entry.verdict == Reason.LATE:
            lines.append(_line(record, entry, Reason.LATE))
        elif seq > record.last_seq:
            record, line = _apply(record, entry, entry.parsed)
            lines.append(line)
        # Else the publisher on this disk applied it and wrote its line.
        record = _note(record, seq, held)
    return Folded(record, lines)


def _apply(record: JobRecord, entry: Journaled, parsed: Parsed) -> tuple[JobRecord, tuple[bytes, Line]]:
    """Fold one event; one that crossed with a cancellation or a claim changes nothing but the history."""
    # Judged before it was journaled; since then the job may have got another key.
    signed = encode_checked(parsed.signed, plain=parsed.plain)
    if not verify_bytes(signed, parsed.signature, record.auth_token):
        why = f"said for an earlier attempt, when attempt {record.attempt} had begun"
        return record, _line(record, entry, Reason.REPLAYED, why)
    try:
        after = apply_event(record, parsed.event, entry.received_at)
    except TransitionError as error:
        ended = record.status in TERMINAL_STATUSES
        reason = Reason.AFTER_TERMINAL if ended else Reason.ILLEGAL_TRANSITION
        return record, _line(record, entry, reason, error.message)
    change = (str(record.status), str(after.status)) if after.status is not record.status else None
    return after, _line(after, entry, ACCEPTED, change=change)


def _note(record: JobRecord, seq: int, held: Callable[[], Collection[int]]) -> JobRecord:
    """Note that `seq` is in the journal, and confirm as far as there is no gap."""
    ranges = seqs.add(ahead_of(record), seq)
    confirmed, ranges = seqs.advance(ranges, record.confirmed_seq)
    if confirmed < record.attempt_seq and ranges:
        confirmed, ranges = _pass_lost(record, confirmed, ranges, held())
    return _with_ahead(record._replace(confirmed_seq=confirmed), ranges)


def _pass_lost(
    record: JobRecord, confirmed: int, ranges: seqs.Ranges, held: Collection[int]
) -> tuple[int, seqs.Ranges]:
    """Pass over gaps of earlier attempts that nothing can fill: their key is no longer accepted."""
    # The first one that can still be filled; the way there may be long.
    ours = (seq for seq in held if confirmed < seq <= record.attempt_seq and not seqs.contains(ranges, seq))
    return seqs.advance(ranges, min(ours, default=record.attempt_seq + 1) - 1)


def _with_ahead(record: JobRecord, ranges: seqs.Ranges) -> JobRecord:
    encoded = seqs.encode(ranges)
    extra: Mapping[str, object] = {key: value for key, value in record.extra.items() if key != AHEAD}
    return record._replace(extra={**extra, AHEAD: encoded} if encoded else extra)


def _line(
    record: JobRecord,
    entry: Journaled,
    verdict: str,
    why: str = "",
    change: tuple[str, str] | None = None,
) -> tuple[bytes, Line]:
    return event_line(
        at=utc_timestamp(entry.received_at),
        source=SOURCE,
        verdict=str(verdict),
        attempt=record.attempt,
        seq=entry.parsed.event.seq if entry.parsed is not None else None,
        digest=digest_of(entry.payload),
        payload=entry.payload,
        why=why,
        change=change,
    )
