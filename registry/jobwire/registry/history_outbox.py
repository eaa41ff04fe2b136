"""The outbox of a job in a home: what its history holds of its worker's events, and the sent mark.

An event's line is written before the record, each flushed, so the history needs no second file beside it.
What lies below the seq that is asked for is not read: a job may speak for months.
"""

import json
import os
import re
from collections.abc import Iterator

from jobwire.core.late_log import LateLog
from jobwire.delivery.outbox import SentMarkFile, SignedEvent
from jobwire.jobs.event import TERMINAL_EVENTS
from jobwire.registry.audit import PUBLISHER, AuditLog, held_event
from jobwire.storage.lines import whole_length

_WINDOW = 4096
_GROWTH = 4
_CHUNK = 64 * 1024
# Longer than what stands before an event in its line.
_OVERLAP = 512
_SEQ = re.compile(
    rb'\n\{"at":"[^"\n]*","kind":"event","source":"[^"\n]*","verdict":"accepted","attempt":[0-9]{1,16},'
    rb'"seq":([0-9]{1,16}),'
)
_log = LateLog("jobwire.outbox")


class HistoryOutbox:
    """See `delivery.outbox.Outbox`. Reading needs no lock: a line without its line break is not there yet."""

    def __init__(self, log: AuditLog, mark_path: str) -> None:
        self._history = log
        self.path = log.events_path
        self.mark = SentMarkFile(mark_path)
        # Set by reading: an event cannot be read.
        self.damaged = False

    def entries(self, *, after: int = 0) -> Iterator[SignedEvent]:
        """See `Outbox.entries`; reads on only as far as it is asked to."""
        with self._history.opened() as descriptor:
            if descriptor is None:
                return
            end = whole_length(descriptor, os.fstat(descriptor).st_size)
            for raw in _lines(descriptor, _start_of(descriptor, end, after), end):
                event = self._event(raw)
                if event is not None and event.seq > after:
                    after = event.seq
                    yield event

    def last(self) -> SignedEvent | None:
        """See `Outbox.last`."""
        with self._history.opened() as descriptor:
            if descriptor is None:
                return None
            end = whole_length(descriptor, os.fstat(descriptor).st_size)
            window = 0
            while window < end:
                window = min(end, max(_WINDOW, window * _GROWTH))
                raw_lines = list(_lines(descriptor, end - window, end))
                for raw in reversed(raw_lines):
                    event = self._event(raw)
                    if event is not None:
                        return event
        return None

    def of_call(self, call: str) -> SignedEvent | None:
        """Return the event that was kept for this call; reads all of the history."""
        with self._history.opened() as descriptor:
            if descriptor is None:
                return None
            end = whole_length(descriptor, os.fstat(descriptor).st_size)
            mark = f'"call":"{call}"'.encode()
            return next((self._event(raw) for raw in _lines(descriptor, 0, end) if mark in raw), None)

    @property
    def last_seq(self) -> int:
        """See `Outbox.last_seq`."""
        last = self.last()
        return last.seq if last else 0

    def _event(self, raw: bytes) -> SignedEvent | None:
        held = held_event(raw)
        if held is None or held.source != PUBLISHER:
            return None
        if not held.whole:
            if not self.damaged:
                _log.warning("event %d in %s cannot be read and is left out", held.seq, self.path)
            self.damaged = True
            return None
        kind = json.loads(held.payload)["event"]
        return SignedEvent(held.seq, held.attempt, kind, kind in TERMINAL_EVENTS, held.payload)


def _start_of(descriptor: int, end: int, after: int) -> int:
    """Return where a line begins before which no event above `after` stands."""
    window = _WINDOW
    while window < end:
        found = _first_seq(descriptor, end - window, end)
        # Events are accepted in the order of their numbers.
        if found is not None and found[0] <= after + 1:
            return found[1]
        window *= _GROWTH
    return 0


def _first_seq(descriptor: int, begin: int, end: int) -> tuple[int, int] | None:
    """Return the seq of the first accepted event in these bytes, and where its line begins."""
    while begin < end:
        raw = os.pread(descriptor, min(_CHUNK, end - begin), begin)
        found = _SEQ.search(raw)
        if found is not None:
            return int(found[1]), begin + found.start() + 1
        if begin + len(raw) >= end:
            return None
        begin += len(raw) - _OVERLAP
    return None


def _lines(descriptor: int, begin: int, end: int) -> Iterator[bytes]:
    """Yield what ends with a line break in these bytes; the first may be the end of a line."""
    rest = b""
    while begin < end:
        raw = os.pread(descriptor, min(_CHUNK, end - begin), begin)
        if not raw:
            return  # cut meanwhile
        begin += len(raw)
        *whole, rest = (rest + raw).split(b"\n")
        for line in whole:
            yield line + b"\n"
