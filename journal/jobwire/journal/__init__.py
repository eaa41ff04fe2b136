"""The append-only store of everything that crossed the wire."""

from jobwire.journal.consumers import Committed, Consumers
from jobwire.journal.entry import Entry, Stored
from jobwire.journal.errors import (
    JournalCorrupt,
    JournalNotFound,
    JournalRecreated,
    JournalTruncated,
)
from jobwire.journal.reader import JournalReader
from jobwire.journal.recovery import Repair
from jobwire.journal.retention import Pruned, Retention, RetentionPolicy
from jobwire.journal.scan import Span, load_span
from jobwire.journal.writer import JournalWriter

__all__ = [
    "Committed",
    "Consumers",
    "Entry",
    "JournalCorrupt",
    "JournalNotFound",
    "JournalReader",
    "JournalRecreated",
    "JournalTruncated",
    "JournalWriter",
    "Pruned",
    "Repair",
    "Retention",
    "RetentionPolicy",
    "Span",
    "Stored",
    "load_span",
]
