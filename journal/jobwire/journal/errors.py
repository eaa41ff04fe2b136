"""What can be wrong with a journal, named so that a reader can decide.

StorageError                 50
├── JournalCorrupt              stored bytes do not match their checksum or their place
├── JournalTruncated            the wanted offset is not (or no longer) in the journal
└── JournalRecreated            this is another journal than the one the offsets belong to
NotFoundError                40
└── JournalNotFound             no journal was ever written in this directory
"""

from pathlib import Path

from jobwire.core.errors import NotFoundError, StorageError


class JournalCorrupt(StorageError):  # noqa: N818 - a state of the journal, named as consumers speak of it
    """Stored bytes fail their check. Facts: segment, position, reason, and offset where known."""


class JournalTruncated(StorageError):  # noqa: N818 - see JournalCorrupt
    """The offset is outside the journal. Facts: wanted, first_offset, durable_offset."""


class JournalRecreated(StorageError):  # noqa: N818 - see JournalCorrupt
    """The identity differs: offsets of the old journal mean nothing here. Facts: expected, found."""


class JournalNotFound(NotFoundError):  # noqa: N818 - see JournalCorrupt
    """The directory holds no journal. Facts: directory."""


class BadBlockError(ValueError):
    """Inside the component only: these bytes are not a whole, valid block. Callers add the place."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def corrupt(segment: str, position: int, reason: str, *, offset: int | None = None) -> JournalCorrupt:
    """Return the error for a bad place inside the durable part of a segment."""
    return JournalCorrupt(
        f"journal segment {segment} is damaged at byte {position}: {reason}",
        hint="run `jobwire journal verify` for the extent; the metrics go on behind what it names",
        segment=segment,
        position=position,
        reason=reason,
        offset=offset,
    )


def truncated(wanted: int, first_offset: int, durable_offset: int) -> JournalTruncated:
    """Return the error for an offset outside [first_offset, durable_offset]."""
    where = "pruned away" if wanted < first_offset else "past the end"
    return JournalTruncated(
        f"offset {wanted} is {where}: the journal holds {first_offset} up to {durable_offset}",
        hint=f"start again at {first_offset} (metrics: --allow-data-loss), or restore the missing segments",
        wanted=wanted,
        first_offset=first_offset,
        durable_offset=durable_offset,
    )


def not_found(directory: Path) -> JournalNotFound:
    """Return the error for a directory without a journal."""
    return JournalNotFound(
        f"no journal in {directory}",
        hint="`jobwire serve` records one; check --home",
        directory=str(directory),
    )
