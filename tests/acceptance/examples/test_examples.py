"""The example program, as its README tells to run it."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from jobwire.core.clock import SystemClock
from jobwire.core.exit_codes import ExitCode
from jobwire.core.signature import new_token
from jobwire.jobs.record import JobRecord
from jobwire.journal.entry import Entry
from jobwire.journal.writer import JournalWriter
from jobwire.registry.store import RecordStore
from jobwire.testing import new_home
from jobwire.testing.rehearsal import Rehearsal

PROGRAM = Path(__file__).resolve().parents[3] / "examples" / "three_questions.py"
CREATED = "2026-01-01T00:00:00Z"
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("java"), pytest.mark.timeout(300)]


def ask(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run the program on `home`."""
    return subprocess.run(
        [sys.executable, str(PROGRAM), "--home", str(home), *words],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def plainly(entries: list[Entry], sessions: dict[str, str]) -> dict[str, Any]:
    """Answer the three questions by one loop: the second opinion."""
    finished: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    waits: list[float] = []
    waiting: dict[str, int] = {}
    halves: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    middle = (entries[0].received_at_us + entries[-1].received_at_us) / 2
    for entry in entries:
        if entry.verdict != "accepted":
            halves[entry.received_at_us >= middle][entry.verdict] += 1
            continue
        said = json.loads(entry.payload)
        job = said["job_id"]
        if job in waiting:
            waits.append((entry.received_at_us - waiting.pop(job)) / 1e6)
        if said["event"] == "permission_required":
            waiting[job] = entry.received_at_us
        if said["event"] in {"completed", "error"}:
            finished[sessions[job]] += 1
            failed[sessions[job]] += said["event"] == "error"
    reasons = set(halves[0]) | set(halves[1])
    return {
        "failures": {session: (finished[session], failed[session]) for session in finished},
        "waiting": (len(waits), len(waiting), round(max(waits), 3)),
        "rejections": {reason: (halves[0][reason], halves[1][reason]) for reason in reasons},
    }


def test_the_answers_are_those_of_a_plain_loop(tmp_path: Path) -> None:
    """Each of the three answers is what one loop over the same messages says."""
    script = Rehearsal(seed=5, jobs=60, active=10)
    entries = list(script)
    sessions = {job_id: f"session-{number % 4}" for number, job_id in enumerate(script.job_ids())}
    store = RecordStore(tmp_path, clock=SystemClock())
    for job_id, session in sessions.items():
        store.create(
            JobRecord(
                job_id, new_token(), "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", agent_session=session
            )
        )
    with JournalWriter(tmp_path / "journal", clock=SystemClock()) as writer:
        for start in range(0, len(entries), 50):
            writer.append(entries[start : start + 50])

    done = ask(tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    expected = plainly(entries, sessions)
    failures = {row["session"]: (row["finished"], row["failed"]) for row in told["failures"]}
    assert failures == expected["failures"]
    assert told["failures"][0]["failed"] == max(failed for _, failed in failures.values())
    (waiting,) = told["waiting"]
    assert (waiting["answered"], waiting["still_waiting"], waiting["longest_seconds"]) == expected["waiting"]
    rejections = {row["reason"]: (row["earlier"], row["later"]) for row in told["rejections"]}
    assert rejections == expected["rejections"]
    rises = [row["rise"] for row in told["rejections"]]
    assert rises == sorted(rises, reverse=True)


def test_a_home_without_a_journal_is_said_before_spark_starts(tmp_path: Path) -> None:
    """No journal: the cause and a remedy on standard error, and the exit code of "not found"."""
    done = ask(new_home(tmp_path))
    assert done.returncode == ExitCode.NOT_FOUND
    assert "no journal in" in done.stderr
    assert "hint:" in done.stderr
