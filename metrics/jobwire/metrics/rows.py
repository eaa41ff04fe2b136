"""The form in which Spark hands journal rows to the fold: one row a message, numbers and short words."""

import json
import re
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jobwire.jobs.fact import FACT_KINDS
from jobwire.journal.entry import STATE_VERDICT

# `seq` is null for whatever is not an accepted event; `label` is the event's type, the reason, or the kind
# of a fact. `note` is what of the payload is read by itself, as JSON: counts of messages that the recorder
# did not store, a fact, those of a state line by line, or what an event says was used.
SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("received_us", pa.int64()),
        ("job_id", pa.string()),
        ("seq", pa.int64()),
        ("label", pa.string()),
        ("sent_us", pa.int64()),
        ("note", pa.string()),
    ]
)
DUPLICATE = "duplicate"
# An entry whose payload is not what its verdict promises.
UNREADABLE = "unreadable"
# A verdict is a word of ours; a foreign journal's own words must not fill the table with keys.
_REASON = re.compile(r"[a-z0-9_]{1,40}")
_OTHER = "other"
# How much later than a newer row an older one may come: the recorder stamps in order of arrival, so
# this only covers clocks being set.
LATENESS_US = 10_000_000
NO_TIME = np.iinfo(np.int64).min

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class FactRow(NamedTuple):
    """A fact as it stands in a journal: of which job, when it was told, its JSON text.

    `again` where it stands in a state, which says what earlier ones said.
    """

    job_id: str
    told_us: int
    payload: str
    again: bool = False


class Rows(NamedTuple):
    """The columns as arrays, in the order of the offset: what a shard has of [begin, end) of a journal.

    `complete` tells whether no row of that range was missing, of whichever shard, and `newest_us` when the
    latest was received. `job`, `label`, `note` are places in `jobs`, which is sorted, `labels` and `notes`;
    the first note is empty. `fact` marks facts.
    """

    offset: Ints
    received_us: Ints
    job: Ints
    seq: Ints
    accepted: Flags
    label: Ints
    sent_us: Ints
    note: Ints
    fact: Flags
    notes: list[str]
    jobs: list[str]
    labels: list[str]
    begin: int
    end: int
    complete: bool
    newest_us: int

    @property
    def size(self) -> int:
        """Return the number of rows."""
        return len(self.offset)

    @property
    def facts(self) -> list[FactRow]:
        """Return the facts, in the order of the journal."""
        places = np.flatnonzero(self.fact)
        columns = (column[places].tolist() for column in (self.job, self.received_us, self.note, self.label))
        return [
            FactRow(self.jobs[job], told_us, text, self.labels[label] == STATE_VERDICT)
            for job, told_us, note, label in zip(*columns, strict=True)
            for text in self.notes[note].split("\n")
        ]

    def count_of(self, label: str) -> int:
        """Return how many rows have this label."""
        return int(np.count_nonzero(self.label == self.labels.index(label))) if label in self.labels else 0

    def since(self, next_offset: int) -> "Rows":
        """Return the rows that are not below this offset."""
        first = int(np.searchsorted(self.offset, next_offset))
        rows = self if first == 0 else self.taken(np.arange(first, self.size))
        return rows._replace(begin=max(self.begin, next_offset))

    def taken(self, places: npt.NDArray[np.intp]) -> "Rows":
        """Return the rows at `places`, in that order."""
        return self._replace(
            offset=self.offset[places],
            received_us=self.received_us[places],
            job=self.job[places],
            seq=self.seq[places],
            accepted=self.accepted[places],
            label=self.label[places],
            sent_us=self.sent_us[places],
            note=self.note[places],
            fact=self.fact[places],
        )


def rows_of(table: Any, whole: tuple[int, int, int] | None = None) -> Rows:
    """Return the rows of a table with SCHEMA's columns.

    `whole` is the range that they are of and when its latest row was received, where the table has a part
    of its rows; nothing is missing then.
    """
    job, jobs = _codes(table.column("job_id"), ordered=True)
    label, labels = _codes(table.column("label"))
    note, notes = _codes(table.column("note"), first="")
    seq = table.column("seq")
    accepted = np.asarray(pc.is_valid(seq), dtype=np.bool_)
    kinds = np.array([text in FACT_KINDS or text == STATE_VERDICT for text in labels], np.bool_)
    rows = Rows(
        offset=_numbers(table.column("offset"), 0),
        received_us=_numbers(table.column("received_us"), 0),
        job=job,
        seq=_numbers(seq, 0),
        accepted=accepted,
        label=label,
        sent_us=_numbers(table.column("sent_us"), NO_TIME),
        note=note,
        fact=kinds[label] & (note > 0) & ~accepted,
        notes=notes,
        jobs=jobs,
        labels=[_reason(text) for text in labels],
        begin=whole[0] if whole else 0,
        end=whole[1] if whole else 0,
        complete=True,
        newest_us=whole[2] if whole else 0,
    )
    in_place = bool((rows.offset[1:] > rows.offset[:-1]).all())
    rows = rows if in_place else rows.taken(np.argsort(rows.offset, kind="stable"))
    if whole is None and rows.size:
        rows = rows._replace(received_us=in_order(rows.received_us))
        first, last = int(rows.offset.min()), int(rows.offset.max())
        complete = last - first + 1 == rows.size
        newest = int(rows.received_us.max())
        rows = rows._replace(begin=first, end=last + 1, complete=complete, newest_us=newest)
    return rows


def in_order(received_us: Ints, newest_us: int = 0) -> Ints:
    """Return times of receipt of which none is far behind one before it, or behind `newest_us`."""
    newest: Ints = np.maximum.accumulate(np.maximum(received_us, newest_us))
    moved: Ints = np.maximum(received_us, newest - LATENESS_US)
    return moved


def _numbers(column: Any, missing: int) -> Ints:
    return np.asarray(pc.fill_null(column, missing).to_numpy(), dtype=np.int64)


def _codes(column: Any, *, first: str | None = None, ordered: bool = False) -> tuple[Ints, list[str]]:
    """Return each text's place in a list of the distinct ones, which begins with `first` if given."""
    texts = pc.fill_null(column, "")
    if first is not None:
        texts = pa.chunked_array([[first], *texts.chunks], pa.string())
    encoded = texts.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    places, names = np.asarray(encoded.indices, dtype=np.int64), encoded.dictionary
    if ordered:
        order = np.asarray(pc.array_sort_indices(names), dtype=np.int64)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        places, names = rank[places], names.take(order)
    return places if first is None else places[1:], names.to_pylist()


def _reason(text: str) -> str:
    return text if _REASON.fullmatch(text) else _OTHER


def counts_of(note: str) -> dict[str, int]:
    """Return the counts of a note, or {"unreadable": 1} for one that is not of our making."""
    try:
        return {_reason(name): int(count) for name, count in json.loads(note).items()}
    except (ValueError, AttributeError, TypeError):
        return {UNREADABLE: 1}
