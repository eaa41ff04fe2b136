"""Real processes, really killed: what was acknowledged is there, the directory opens clean."""

import contextlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobwire.core.clock import SystemClock
from jobwire.core.errors import StorageError
from jobwire.journal.consumers import Consumers
from jobwire.journal.entry import Entry, Stored
from jobwire.journal.reader import JournalReader
from jobwire.journal.verify import verify
from jobwire.journal.writer import JournalWriter
from jobwire.storage.file_lock import AlreadyRunningError
from jobwire.testing import wait_for

# Appends numbered batches for ever, commits and prunes now and then; prints what has become durable.
_CHILD = """
import sys
from pathlib import Path
from jobwire.core.clock import SystemClock
from jobwire.journal.entry import Entry
from jobwire.journal.writer import JournalWriter
from jobwire.journal.consumers import Consumers
from jobwire.journal.retention import RetentionPolicy, Retention

directory, clock = Path(sys.argv[1]), SystemClock()
with JournalWriter(directory, clock=clock, segment_bytes=20_000) as writer:
    consumers = Consumers(directory, clock=clock)
    consumers.register("child")
    while True:
        start = writer.next_offset
        size = start % 7 + 1
        offsets = range(start, start + size)
        payloads = [b"%d:" % i + b"x" * (i % 500) for i in offsets]
        end = writer.append([Entry(i, f"t/{i % 3}", p, False, "accepted") for i, p in zip(offsets, payloads)])
        print("durable", end, flush=True)
        if start % 5 == 0:
            print("committed", consumers.commit("child", max(0, end - 100)), flush=True)
            Retention(directory, clock=clock, limits=RetentionPolicy(0, 0)).prune()
"""


def _true(row: Stored) -> bool:
    i = row.offset
    return row[1:5] == (i, f"t/{i % 3}", b"%d:" % i + b"x" * (i % 500), False)


@contextlib.contextmanager
def _child(directory: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(directory)], stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_killed_at_random_points_again_and_again(tmp_path: Path) -> None:
    """Over 12 lives of a writer, each ended by SIGKILL, no acknowledged entry is lost or changed."""
    directory = tmp_path / "journal"
    chance = random.Random(4)  # noqa: S311 - a replayable schedule
    promised = {"durable": 0, "committed": 0}
    for _ in range(12):
        with _child(directory) as child:
            assert child.stdout is not None
            for _ in range(chance.randrange(1, 60)):
                word, number = child.stdout.readline().split()
                promised[word] = int(number)
            child.kill()
            for line in child.stdout.read().splitlines():
                with contextlib.suppress(ValueError):
                    word, number = line.split()
                    promised[word] = max(promised[word], int(number))
        _check(directory, promised)
    assert promised["durable"] > 300
    with JournalReader(directory) as reader:
        assert reader.first_offset > 0, "pruning took part"


def _check(directory: Path, promised: dict[str, int]) -> None:
    with JournalWriter(directory, clock=SystemClock()) as writer:
        assert writer.next_offset >= promised["durable"]
    assert not verify(directory).damage
    assert {one.name: one.offset for one in Consumers(directory).all()}["child"] >= promised["committed"]
    with JournalReader(directory) as reader:
        offset = reader.first_offset
        assert offset <= promised["committed"]
        while rows := reader.read(offset):
            assert all(_true(row) for row in rows)
            offset = rows[-1].offset + 1
        assert offset == reader.durable_offset


def test_a_lock_goes_with_its_process(tmp_path: Path) -> None:
    """While it lives its pid is named; after SIGKILL the next writer opens at once."""
    directory = tmp_path / "journal"
    with _child(directory) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(AlreadyRunningError) as error:
            JournalWriter(directory, clock=SystemClock())
        assert error.value.facts["pid"] == child.pid
    JournalWriter(directory, clock=SystemClock()).close()


def test_several_readers_follow_a_writer_that_is_killed_and_started_again(tmp_path: Path) -> None:
    """Each of four readers sees every offset once, in order, with its own bytes, over two kills."""
    directory = tmp_path / "journal"
    target = 600
    seen: list[list[int]] = [[] for _ in range(4)]
    wrong: list[Stored] = []
    ended = threading.Event()

    def follow(mine: list[int]) -> None:
        with JournalReader(directory) as reader:
            for rows in reader.follow(0, stop=lambda: ended.is_set() or len(mine) >= target, max_rows=37):
                mine.extend(row.offset for row in rows)
                wrong.extend(row for row in rows if row.payload != b"%d" % row.offset * 20)

    def write(until: int) -> None:
        script = (
            "import sys\nfrom pathlib import Path\nfrom jobwire.core.clock import SystemClock\n"
            "from jobwire.journal.entry import Entry\nfrom jobwire.journal.writer import JournalWriter\n"
            "with JournalWriter(Path(sys.argv[1]), clock=SystemClock(), segment_bytes=9000) as w:\n"
            "    while w.next_offset < int(sys.argv[2]) + 50:\n"
            "        w.append([Entry(1, 't', b'%d' % i * 20, False, 'accepted')"
            " for i in range(w.next_offset, w.next_offset + 5)])\n"
            "        print(w.next_offset, flush=True)\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(directory), str(until)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        while int(process.stdout.readline()) < until:
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()

    write(100)
    threads = [threading.Thread(target=follow, args=(mine,)) for mine in seen]
    for thread in threads:
        thread.start()
    try:
        write(350)
        write(target)
        wait_for(lambda: all(len(mine) >= target for mine in seen), what="all readers at the end")
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert all(mine == list(range(len(mine))) for mine in seen)


def test_a_file_size_limit_is_a_full_disk(tmp_path: Path) -> None:
    """The kernel's own refusal (EFBIG at RLIMIT_FSIZE) leaves the journal as it was."""
    script = (
        "import json, resource, sys\nfrom pathlib import Path\nfrom jobwire.core.clock import SystemClock\n"
        "from jobwire.core.errors import StorageError\nfrom jobwire.journal.entry import Entry\n"
        "from jobwire.journal.writer import JournalWriter\n"
        "batch = [Entry(1, 't', b'x' * 1000, False, 'accepted')] * 4\n"
        "with JournalWriter(Path(sys.argv[1]), clock=SystemClock()) as w:\n"
        "    w.append(batch)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, resource.RLIM_INFINITY))\n"
        "    try:\n        w.append(batch)\n"
        "    except StorageError as error:\n        facts = error.facts\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)\n"
        "    print(json.dumps([facts['disk_full'], w.append(batch)]))\n"
    )
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "j")], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [True, 8]
    assert not verify(tmp_path / "j").damage


@pytest.mark.root
def test_a_really_full_disk(tmp_path: Path) -> None:
    """On a 1 MiB file system: append until it is full, nothing half-visible, go on after space is freed."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    mount = Path(tempfile.mkdtemp(dir=tmp_path))
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        ballast = mount / "ballast"
        ballast.write_bytes(bytes(200_000))
        batch = [Entry(1, "t", b"x" * 1000, False, "accepted")] * 20
        with JournalWriter(mount / "j", clock=SystemClock(), segment_bytes=100_000) as writer:
            with pytest.raises(StorageError) as error:  # noqa: PT012 - which append meets the end is not known
                while True:
                    writer.append(batch)
            assert error.value.facts["disk_full"] is True
            end = writer.next_offset
            with JournalReader(mount / "j") as reader:
                assert reader.durable_offset == end
                assert end > 300
            ballast.unlink()
            assert writer.append(batch) == end + 20
        assert not verify(mount / "j").damage
        with JournalWriter(mount / "j", clock=SystemClock()) as writer:
            assert writer.repair is None
    finally:
        subprocess.run(["umount", mount], check=True)
