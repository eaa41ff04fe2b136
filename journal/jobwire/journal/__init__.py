"""The append-only store of everything that crossed the wire."""

from jobwire.journal.entry import Entry, Stored
from jobwire.journal.errors import (
    JournalCorrupt,
    JournalLocked,
    JournalNotFound,
    JournalRecreated,
    JournalTruncated,
)
from jobwire.journal.reader import JournalReader
from jobwire.journal.recovery import Repair
from jobwire.journal.scan import Span, load_span
from jobwire.journal.writer import JournalWriter

__all__ = [
    "Entry",
    "JournalCorrupt",
    "JournalLocked",
    "JournalNotFound",
    "JournalReader",
    "JournalRecreated",
    "JournalTruncated",
    "JournalWriter",
    "Repair",
    "Span",
    "Stored",
    "load_span",
]
