"""The example over sealed files, as its README tells to run it."""

import json
import subprocess
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from jobwire.core.topics import Topics
from jobwire.journal.entry import Entry
from jobwire.journal.history import History
from jobwire.journal.seal import seal
from jobwire.journal.writer import JournalWriter
from jobwire.testing import ManualClock
from jobwire.testing.object_store import ObjectStore
from jobwire.testing.rehearsal import Rehearsal

PROGRAM = Path(__file__).resolve().parents[3] / "examples" / "sealed_parquet.py"
ENTRIES = list(Rehearsal(seed=6, jobs=40, active=10))


def ask(*words: str) -> "subprocess.CompletedProcess[str]":
    """Run the program."""
    return subprocess.run(
        [sys.executable, str(PROGRAM), *words], capture_output=True, text=True, timeout=120, check=False
    )


def plainly(entries: list[Entry]) -> dict[str, tuple[int, float]]:
    """Answer by one loop: how often, and how many seconds in all, per event."""
    jobs: dict[str, dict[int, tuple[str, int]]] = defaultdict(dict)
    for entry in entries:
        if entry.verdict == "accepted":
            said = json.loads(entry.payload)
            jobs[said["job_id"]].setdefault(said["seq"], (said["event"], entry.received_at_us))
    spent: dict[str, list[int]] = defaultdict(list)
    for job in jobs.values():
        events = [event for _, event in sorted(job.items())]
        for (event, since), (_, until) in pairwise(events):
            spent[event].append(until - since)
    return {event: (len(each), round(sum(each) / 1e6, 3)) for event, each in spent.items()}


@pytest.mark.parametrize("where", ["folder", "store"])
def test_the_answer_is_that_of_a_plain_loop(where: str, tmp_path: Path, object_store: ObjectStore) -> None:
    """From a folder and from a store alike: counts and sums are what one loop over the entries says."""
    place = object_store.uri() if where == "store" else str(tmp_path / "history")
    with JournalWriter(tmp_path / "journal", clock=ManualClock(), segment_bytes=20_000) as writer:
        writer.append(ENTRIES)
    list(seal(tmp_path / "journal", History(place), clock=ManualClock(), topics=Topics()))
    done = ask(place, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {row["event"]: (row["times"], row["total"]) for row in found} == plainly(ENTRIES)
    assert [row["total"] for row in found] == sorted((row["total"] for row in found), reverse=True)
    assert "permission_required" in ask(place).stdout


def test_what_is_not_sealed_is_said(tmp_path: Path) -> None:
    """No folder: the cause and a remedy on standard error, and no traceback."""
    done = ask(str(tmp_path / "nothing"))
    assert done.returncode == 40
    assert "nothing" in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr
