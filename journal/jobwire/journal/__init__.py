"""The append-only store of everything that crossed the wire. Nothing is loaded before it is asked for."""

TYPE_CHECKING = False  # for type checkers it is True; `typing` itself need not be loaded
if TYPE_CHECKING:
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

_MODULES = {
    "Committed": "jobwire.journal.consumers",
    "Consumers": "jobwire.journal.consumers",
    "Entry": "jobwire.journal.entry",
    "Stored": "jobwire.journal.entry",
    "JournalCorrupt": "jobwire.journal.errors",
    "JournalNotFound": "jobwire.journal.errors",
    "JournalRecreated": "jobwire.journal.errors",
    "JournalTruncated": "jobwire.journal.errors",
    "JournalReader": "jobwire.journal.reader",
    "Repair": "jobwire.journal.recovery",
    "Pruned": "jobwire.journal.retention",
    "Retention": "jobwire.journal.retention",
    "RetentionPolicy": "jobwire.journal.retention",
    "Span": "jobwire.journal.scan",
    "load_span": "jobwire.journal.scan",
    "JournalWriter": "jobwire.journal.writer",
}


if not TYPE_CHECKING:  # a misspelt name is an error of the type checker

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module 'jobwire.journal' has no attribute {name!r}")
        import importlib  # noqa: PLC0415 - see the first line

        value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
        return value
