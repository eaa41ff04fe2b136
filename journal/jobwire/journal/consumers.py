"""How far each consumer has come: one small file a consumer, replaced durably.

A registered consumer holds retention back: nothing it has not committed is pruned. A commit says
"I shall not read below this offset again", so it is made after the consumer's own state is durable.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jobwire.core.clock import Clock, SystemClock, utc_timestamp
from jobwire.core.errors import InvalidInputError, NotFoundError
from jobwire.core.topics import check_identity
from jobwire.journal.errors import JournalCorrupt, JournalRecreated
from jobwire.journal.reader import JournalReader
from jobwire.storage.durable import remove_durably, replace_durably
from jobwire.storage.failures import storage_failure
from jobwire.storage.file_lock import sole
from jobwire.storage.files import FileSystem, SystemFiles

CONSUMERS_NAME = "consumers"
RETENTION_LOCK = "retention.lock"
LOCK_SECONDS = 10.0
_SUFFIX = ".json"


class Committed(NamedTuple):
    """A consumer's place: everything below `offset` is dealt with."""

    name: str
    offset: int
    identity: str
    committed_at: str


class Consumers:
    """The registered consumers of the journal in `directory`.

    Names are 1 to 64 of A-Z a-z 0-9 _ -. Every change takes a lock that retention takes too, waits
    at most 10 s for it, and is on the disk on return. Methods raise JournalNotFound, AlreadyRunningError,
    JournalRecreated (the place belongs to an earlier journal), StorageError.
    """

    def __init__(
        self, directory: Path, *, clock: Clock | None = None, files: FileSystem | None = None
    ) -> None:
        self._directory = directory
        self._folder = directory / CONSUMERS_NAME
        self._clock = clock if clock is not None else SystemClock()
        self._files = files if files is not None else SystemFiles()

    def register(self, name: str, offset: int | None = None) -> int:
        """Register `name` at `offset` (default: the first offset still there); return its place.

        A name that is registered already keeps its place, which is returned.
        """
        check_identity(name)
        with self._changing() as reader:
            if (known := self._read(name)) is not None:
                return self._same_journal(known, reader).offset
            place = reader.first_offset if offset is None else offset
            return self._write(name, place, reader)

    def commit(self, name: str, offset: int) -> int:
        """Move the place forward to `offset`; one that lies behind changes nothing. Return the place.

        Raises NotFoundError for a name that is not registered.
        """
        with self._changing() as reader:
            known = self._same_journal(self._known(name), reader)
            return known.offset if offset <= known.offset else self._write(name, offset, reader)

    def remove(self, name: str) -> Committed:
        """Forget the consumer: it no longer holds anything back. Return its last place."""
        with self._locked():
            known = self._known(name)
            remove_durably([self._path(name)], files=self._files)
            return known

    def all(self) -> list[Committed]:
        """Return all consumers by name, whichever journal their places belong to."""
        names = sorted(path.name.removesuffix(_SUFFIX) for path in self._folder.glob("*" + _SUFFIX))
        return [known for name in names if (known := self._read(name)) is not None]

    def _path(self, name: str) -> Path:
        return self._folder / (check_identity(name) + _SUFFIX)

    def _read(self, name: str) -> Committed | None:
        path = self._path(name)
        try:
            values = json.loads(path.read_bytes())
            known = Committed(
                name, int(values["offset"]), str(values["identity"]), str(values["committed_at"])
            )
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_failure("read", path, error) from error
        except (ValueError, KeyError, TypeError) as error:
            raise JournalCorrupt(
                f"the place of consumer {name} cannot be read: {path}",
                hint=f"`jobwire journal consumers remove {name}`, then start that consumer again",
                segment=str(path),
                position=0,
                reason=str(error),
            ) from error
        return known

    def _known(self, name: str) -> Committed:
        known = self._read(name)
        if known is None:
            raise NotFoundError(
                f"no consumer {name} is registered on the journal in {self._directory}",
                hint="`jobwire journal consumers list` shows them",
                name=name,
            )
        return known

    @staticmethod
    def _same_journal(known: Committed, reader: JournalReader) -> Committed:
        if known.identity != reader.identity:
            raise JournalRecreated(
                f"consumer {known.name} stands at offset {known.offset} of journal {known.identity}, "
                f"this is {reader.identity}",
                hint=f"`jobwire journal consumers remove {known.name}` to begin again",
                expected=known.identity,
                found=reader.identity,
            )
        return known

    def _write(self, name: str, offset: int, reader: JournalReader) -> int:
        durable = reader.durable_offset
        if not 0 <= offset <= durable:
            raise InvalidInputError(
                f"offset {offset} is not in the journal", hint=f"it ends at {durable}", offset=offset
            )
        values = {
            "offset": offset,
            "identity": reader.identity,
            "committed_at": utc_timestamp(self._clock.now()),
        }
        path = self._path(name)
        try:
            if not path.exists():
                # Also where the folder is there: whoever made it may have been killed before it was flushed.
                self._files.make_directory(self._folder)
                self._files.sync_directory(self._directory)
            replace_durably(path, json.dumps(values).encode() + b"\n", files=self._files)
        except OSError as error:
            raise storage_failure("write", path, error) from error
        return offset

    @contextlib.contextmanager
    def _changing(self) -> Iterator[JournalReader]:
        # First the reader: a lock file must not make any directory look like a journal.
        with JournalReader(self._directory) as reader, self._locked():
            yield reader

    def _locked(self) -> contextlib.AbstractContextManager[None]:
        path = self._directory / RETENTION_LOCK
        what = f"changes the consumers in {self._directory}"
        return sole(path, clock=self._clock, deadline_seconds=LOCK_SECONDS, what=what)
