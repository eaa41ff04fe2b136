"""The sealed journal: immutable Parquet files that any reader of Parquet reads as they are.

    PLACE/journal=IDENTITY/FIRST-END.CHECKSUM.parquet      entries from offset FIRST up to END; CRC32C

PLACE is a folder, or a URI of an object store (`s3://bucket/folder`). The names are the manifest: a file gets
its name when it is whole and on the disk, so a listing tells what is sealed, and nothing can say otherwise
after a kill. No file is ever changed, joined or named anew. Names that begin with a dot are files in
the making, which Spark, pyarrow and DuckDB do not look at. docs/adr/0406 compares this with a table format.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from jobwire.journal.block import crc32c
from jobwire.journal.errors import corrupt, truncated
from jobwire.journal.places import check_bucket, failed, joined, opened
from jobwire.journal.scan import Span
from jobwire.storage.durable import make_directories, replace_durably
from jobwire.storage.files import FileSystem, SystemFiles

SUFFIX = ".parquet"
_NAME = re.compile(r"(?P<first>\d{20})-(?P<end>\d{20})\.(?P<checksum>[0-9a-f]{8})\.parquet")
_READ_ROWS = 65_536


class Sealed(NamedTuple):
    """One file: `place` is its path or URI."""

    first_offset: int
    end_offset: int
    place: str
    bytes: int


class History:
    """The sealed files in `place`. Of each journal one process at a time may put files (seal.py)."""

    def __init__(self, place: str, *, files: FileSystem | None = None) -> None:
        self.place = place
        self._files = files if files is not None else SystemFiles()

    def sealed(self, identity: str) -> list[Sealed]:
        """Return a journal's files in the order of their offsets, none that another one holds whole.

        Raises StorageError.
        """
        filesystem, folder = opened(self._folder(identity))
        try:
            found = filesystem.get_file_info(pyarrow.fs.FileSelector(folder, allow_not_found=True))
            if not found:
                check_bucket(self.place, filesystem, folder)
        except OSError as error:
            raise failed("list", self.place, error) from error
        listed = [
            Sealed(
                int(match["first"]), int(match["end"]), joined(self._folder(identity), match[0]), info.size
            )
            for info in found
            if (match := _NAME.fullmatch(info.base_name))
        ]
        files: list[Sealed] = []
        # The longer one first of two that begin together.
        for file in sorted(listed, key=lambda file: (file.first_offset, -file.end_offset, file.place)):
            if not files or file.end_offset > files[-1].end_offset:
                files.append(file)
        return files

    def put(self, identity: str, first_offset: int, end_offset: int, content: bytes) -> None:
        """Add a file, whole and durable on return, or not at all. Raises StorageError."""
        name = f"{first_offset:020d}-{end_offset:020d}.{crc32c(content):08x}{SUFFIX}"
        place = joined(self._folder(identity), name)
        try:
            if "://" in place:
                filesystem, path = opened(place)
                # An object appears whole, when its stream is closed; a failed part makes closing fail.
                with filesystem.open_output_stream(path) as stream:
                    stream.write(content)
                return
            folder = Path(place).parent
            make_directories(folder, files=self._files)
            if not any(folder.glob("*" + SUFFIX)):
                # Also where the folders are there: whoever made them may have been killed before this.
                for parent in (folder.parent, folder.parent.parent):
                    self._files.sync_directory(parent)
        except OSError as error:
            raise failed("write", place, error) from error
        replace_durably(place, content, files=self._files)

    def check(self) -> None:
        """Raise StorageError where the place does not answer."""
        self.sealed("")

    def reaching(self, identity: str, offset: int) -> int:
        """Return the first offset from which on the files lead up to `offset` without a hole."""
        for file in reversed(self.sealed(identity)):
            if file.end_offset < offset:
                break
            offset = min(offset, file.first_offset)
        return offset

    def scan(self, identity: str, start: int, end: int) -> Iterator[Span]:
        """Yield spans that together hold exactly [start, end), each offset once, however files overlap.

        A span of a file has its place as segment.
        Raises JournalTruncated for a range that is not all there.
        """
        files = self.sealed(identity)
        reached = start
        for file in files:
            if file.first_offset <= reached < min(end, file.end_offset):
                until = min(end, file.end_offset)
                yield Span(identity, file.first_offset, file.place, 0, file.bytes, reached, until)
                reached = until
        if reached < end:
            raise truncated(reached, *(files[0].first_offset, files[-1].end_offset) if files else (end, end))

    def _folder(self, identity: str) -> str:
        return joined(self.place, f"journal={identity}")


def load_sealed(span: Span) -> bytes:
    """Return the whole file. Raises StorageError, and JournalCorrupt where it is not what was sealed."""
    filesystem, path = opened(span.segment)
    try:
        with filesystem.open_input_file(path) as file:
            content = bytes(file.read())
    except OSError as error:
        raise failed("read", span.segment, error) from error
    match = _NAME.fullmatch(span.segment.partition("?")[0].rpartition("/")[2])
    # Parquet's own checksums leave the footer out, which says where and of what type everything is.
    if match is None or int(match["checksum"], 16) != crc32c(content):
        raise corrupt(span.segment, 0, "its checksum is not that of its name", offset=span.first_offset)
    return content


def sealed_batches(content: bytes, span: Span, columns: Sequence[str]) -> Iterator[Any]:
    """Yield the span's rows as record batches with these columns; `content` is what `load_sealed` gave."""
    with pq.ParquetFile(pa.BufferReader(content)) as file:
        place = span.segment_base
        for batch in file.iter_batches(_READ_ROWS, columns=list(columns), use_threads=False):
            begin = max(0, span.first_offset - place)
            length = min(batch.num_rows, span.end_offset - place) - begin
            place += batch.num_rows
            if length > 0:
                # Parquet gives the file's order, whatever was asked for.
                yield batch.select(list(columns)).slice(begin, length)
