"""A disk that fills up below the tables while the query runs, and gets room again."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobwire.testing.rehearsal import Rehearsal
from jobwire.testing.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.root, pytest.mark.timeout(600)]
ENTRIES = list(Rehearsal(seed=71, jobs=60, active=20))
_FIRST = 100
_LONG_SECONDS = 240.0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 4 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    # The same with an injected failure, for everybody: integration/metrics/test_sink.py.
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("a full disk is made with a small tmpfs, which needs root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(path: Path) -> None:
    """Write until the disk is full."""
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        for size in (64 << 10, 4 << 10):
            try:
                while os.write(descriptor, bytes(size)) == size:
                    pass
            except OSError:
                continue
    finally:
        os.close(descriptor)


def test_the_query_stops_and_goes_on_when_there_is_room(home: Any, small_disk: Path) -> None:
    """On a full disk the query stops and says so with the remedy; with room again nothing is missing."""
    tables = small_disk / "metrics.db"
    words = ("--history", "", "--trigger", "0.1", "--sink", str(tables))
    home.record(ENTRIES[:_FIRST])
    said = home.path / "said"
    with said.open("w") as errors:
        run = home.start("run", *words, errors=errors)
    wait_for(
        lambda: home.counted(tables) == _FIRST, deadline_seconds=_LONG_SECONDS, step_seconds=0.1, what="rows"
    )
    fill(small_disk / "ballast")
    home.record(ENTRIES[_FIRST:])
    wait_for(
        lambda: "disk is full" in said.read_text(),
        deadline_seconds=_LONG_SECONDS,
        step_seconds=0.1,
        what="the error",
    )
    assert "free disk space" in said.read_text()
    assert run.poll() is None
    assert home.counted(tables) == _FIRST
    (small_disk / "ballast").unlink()
    wait_for(
        lambda: home.counted(tables) == len(ENTRIES),
        deadline_seconds=_LONG_SECONDS,
        step_seconds=0.1,
        what="all rows",
    )
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=120)
    assert run.returncode == 0, said.read_text()
    with home.sink(str(tables)) as sink:
        assert sink.digests() == home.expected()
