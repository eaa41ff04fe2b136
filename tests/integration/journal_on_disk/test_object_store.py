"""Sealed files on an S3 store: as in a folder, also when the store or who writes dies."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from jobwire.core.errors import ConfigError, StorageError
from jobwire.core.override import override
from jobwire.core.topics import Topics
from jobwire.journal.entry import Entry
from jobwire.journal.history import History, load_sealed, sealed_batches
from jobwire.journal.places import opened
from jobwire.journal.reader import JournalReader
from jobwire.journal.seal import seal, sealed_file
from jobwire.journal.writer import JournalWriter
from jobwire.testing import ManualClock
from jobwire.testing.object_store import ObjectStore
from jobwire.testing.rehearsal import Rehearsal
from jobwire.testing.waiting import wait_for

ENTRIES = list(Rehearsal(seed=12, jobs=6))[:48]
# Sends two parts of a file (10 MB each at most, S3FileSystem), then waits to be killed or told to end.
UPLOAD = """
import os, sys
from jobwire.journal.places import opened
filesystem, path = opened(sys.argv[1])
stream = filesystem.open_output_stream(path)
stream.write(os.urandom(30_000_000))
print("written", flush=True)
sys.stdin.read()
stream.close()
"""


class Place:
    """A journal beside a store, and what is sealed of it there."""

    def __init__(self, folder: Path, store: ObjectStore) -> None:
        self.journal = folder / "journal"
        self.uri = store.uri()
        with JournalWriter(self.journal, clock=ManualClock(), segment_bytes=2000) as writer:
            for start in range(0, len(ENTRIES), 4):
                writer.append(ENTRIES[start : start + 4])
            self.identity = str(writer.identity)
        self.history = History(self.uri)

    def seal(self) -> list[int]:
        """Seal all of the journal; return the end of each file."""
        return list(seal(self.journal, self.history, clock=ManualClock(), topics=Topics()))

    def append(self, entries: list[Entry]) -> None:
        """Let the journal grow."""
        with JournalWriter(self.journal, clock=ManualClock(), segment_bytes=2000) as writer:
            writer.append(entries)

    def offsets(self, start: int, end: int) -> list[int]:
        """Read a range of the files by its offsets."""
        spans = list(self.history.scan(self.identity, start, end))
        batches = [batch for span in spans for batch in sealed_batches(load_sealed(span), span, ["offset"])]
        return [offset for batch in batches for offset in batch.column("offset").to_pylist()]

    def rows(self) -> list[dict[str, Any]]:
        """Read the store's folder as any reader of Parquet does."""
        filesystem, path = opened(self.uri)
        dataset = pyarrow.dataset.dataset(path, filesystem=filesystem, partitioning="hive")
        found: list[dict[str, Any]] = dataset.to_table().sort_by("offset").to_pylist()
        return found

    def check(self) -> None:
        """Hold that the store has each entry once, byte for byte."""
        assert [(row["offset"], row["payload"]) for row in self.rows()] == [
            (offset, entry.payload) for offset, entry in enumerate(ENTRIES)
        ]


@pytest.fixture
def place(tmp_path: Path, object_store: ObjectStore) -> Place:
    """Give a journal of several segments that is to be sealed on the store."""
    return Place(tmp_path, object_store)


def test_a_store_holds_the_journal_as_a_folder_does(place: Place, object_store: ObjectStore) -> None:
    """Pyarrow reads what was sealed, a range is read back by its offsets, a second seal adds nothing."""
    assert place.seal()[-1] == len(ENTRIES)
    place.check()
    files = place.history.sealed(place.identity)
    assert len(files) > 3
    assert place.seal() == []
    assert place.history.sealed(place.identity) == files
    assert place.offsets(5, 31) == list(range(5, 31))
    spans = list(place.history.scan(place.identity, 5, 31))
    assert object_store.environ["AWS_SECRET_ACCESS_KEY"] not in repr(spans)


def test_sealing_the_same_range_again_is_the_same_file(place: Place) -> None:
    """Who died after an upload finds its file; an upload that is repeated writes no second one."""
    next(seal(place.journal, place.history, clock=ManualClock(), topics=Topics()))
    (file,) = place.history.sealed(place.identity)
    span = next(place.history.scan(place.identity, 0, file.end_offset))
    place.history.put(place.identity, 0, file.end_offset, load_sealed(span))
    assert place.history.sealed(place.identity) == [file]
    assert place.seal()[-1] == len(ENTRIES)
    place.check()


class LateHistory(History):
    """A history whose uploads fail for who seals, and are completed by the store later."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.late: list[tuple[str, int, int, bytes]] = []

    @override
    def put(self, identity: str, first_offset: int, end_offset: int, content: bytes) -> None:
        """Keep the upload for later."""
        self.late.append((identity, first_offset, end_offset, content))
        raise StorageError("no answer")


def test_an_upload_that_completes_late_is_the_same_file(place: Place) -> None:
    """The journal grew meanwhile: a next seal begins with the same range, and no reader counts it twice."""
    late = LateHistory(place.uri)
    *_, last = seal(place.journal, place.history, clock=ManualClock(), topics=Topics())
    place.append(ENTRIES[:1])
    with pytest.raises(StorageError, match="no answer"):
        list(seal(place.journal, late, clock=ManualClock(), topics=Topics()))
    place.append(ENTRIES[1:2])
    assert place.seal() == [last + 1, last + 2]
    files = place.history.sealed(place.identity)
    for upload in late.late:
        place.history.put(*upload)
    assert place.history.sealed(place.identity) == files
    assert sorted(row["offset"] for row in place.rows()) == list(range(last + 2))


@pytest.mark.parametrize(("first", "end"), [(0, 7), (0, 48), (5, 30), (44, 48)])
def test_a_range_that_lies_there_twice_is_read_once(place: Place, first: int, end: int) -> None:
    """Whatever else lies in the folder: by offset each entry comes once, and sealing goes on where it was."""
    place.seal()
    with JournalReader(place.journal) as reader:
        spans = list(reader.scan(first, end))
    content = sealed_file(place.journal, spans, topics=Topics())
    place.history.put(place.identity, first, end, content)
    assert place.offsets(0, 48) == list(range(48))
    assert place.offsets(6, 45) == list(range(6, 45))
    assert place.history.reaching(place.identity, 48) == 0
    assert place.seal() == []


def test_a_store_that_is_away_is_told_and_goes_on_where_it_was(
    place: Place, object_store: ObjectStore
) -> None:
    """Killed between two files: an error with cause and remedy, nothing lost or doubled after the restart."""
    files = seal(place.journal, place.history, clock=ManualClock(), topics=Topics())
    first = next(files)
    object_store.kill()
    with pytest.raises(StorageError, match="NETWORK_CONNECTION") as told:
        next(files)
    assert told.value.facts["away"]
    assert told.value.facts["retry"]
    assert "see that the store runs" in str(told.value.hint)
    with pytest.raises(StorageError, match="cannot list"):
        place.history.check()
    object_store.start()
    assert [file.end_offset for file in place.history.sealed(place.identity)] == [first]
    assert place.seal()[-1] == len(ENTRIES)
    place.check()


@pytest.mark.parametrize("victim", ["writer", "store"])
def test_a_torn_upload_is_never_listed(place: Place, object_store: ObjectStore, victim: str) -> None:
    """Parts that arrived are no file: not for us, not for other readers, not after a restart."""
    name = f"{place.identity}/{0:020d}-{48:020d}.00000000.parquet"
    uri = object_store.uri(f"bucket/jobwire/journal={name}")
    uploading = subprocess.Popen(
        [sys.executable, "-c", UPLOAD, uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert uploading.stdout is not None
    assert uploading.stdout.readline() == b"written\n"
    wait_for(lambda: any(object_store.bucket.rglob(".rclone*")), what="a part of the upload at the store")
    (uploading if victim == "writer" else object_store).kill()
    uploading.communicate()
    assert uploading.returncode != 0
    if victim == "store":
        object_store.start()
    assert place.history.sealed(place.identity) == []
    assert place.seal()[-1] == len(ENTRIES)
    place.check()


@pytest.mark.parametrize(
    ("variable", "value", "remedy"),
    [
        ("AWS_SECRET_ACCESS_KEY", "another", "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("AWS_REQUEST_CHECKSUM_CALCULATION", "when_supported", "set AWS_REQUEST_CHECKSUM_CALCULATION"),
    ],
)
def test_what_a_store_refuses_is_told_with_its_remedy(
    place: Place, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, remedy: str
) -> None:
    """Wrong keys, and uploads in a form that the store does not know, are not told as an absence."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(StorageError) as told:
        place.seal()
    assert remedy in str(told.value.hint)
    assert not told.value.facts["away"]


def test_a_missing_bucket_is_no_empty_history(object_store: ObjectStore) -> None:
    """Nothing sealed in a bucket is an empty list; without the bucket it is an error that names it."""
    History(object_store.uri()).check()
    with pytest.raises(StorageError, match="the bucket elsewhere does not exist"):
        History(object_store.uri("elsewhere/jobwire")).check()


def test_a_store_of_ones_own_may_be_named_by_the_environment(
    place: Place, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS_ENDPOINT_URL says where the store is, as for every tool of S3."""
    place.seal()
    monkeypatch.setenv("AWS_ENDPOINT_URL", object_store.endpoint)
    found = History("s3://bucket/jobwire").sealed(place.identity)
    assert len(found) == len(place.history.sealed(place.identity))


@pytest.mark.parametrize(
    "uri",
    [
        "s3://key:secret@bucket/folder",
        "s3://bucket/folder?secret_key=secret",
        "s3://bucket?colour=red",
        "s4://key:secret@bucket/folder",
    ],
)
def test_a_uri_with_keys_or_unknown_options_is_refused(uri: str) -> None:
    """Keys have no place in a URI, and no error repeats them; a wrong option is a ConfigError."""
    with pytest.raises(ConfigError) as told:
        History(uri).check()
    assert "secret@" not in str(told.value)
    assert "secret_key" not in str(told.value)
