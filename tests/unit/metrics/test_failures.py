"""From Spark's texts to our errors, and what the run does about them."""

import io
import json
from pathlib import Path
from typing import Any

from jobwire.core.errors import ConfigError
from jobwire.core.override import override
from jobwire.journal.errors import JournalTruncated
from jobwire.metrics.errors import FULL_HINT, DataLossError, QueryError, SinkError
from jobwire.metrics.failures import failure_of, may_pass
from jobwire.metrics.health import read_progress
from jobwire.metrics.progress_line import ProgressLine
from jobwire.metrics.sessions import SessionLookup
from jobwire.testing.clock import ManualClock


def test_a_runners_error_keeps_its_class() -> None:
    """The source runner's traceback comes as text: our own errors are found in it."""
    text = (
        "[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed\nTraceback (most recent call last):\n"
        '  File "x.py", line 3, in y\n'
        "jobwire.journal.errors.JournalTruncated: offset 3 is pruned away (start again at 9)\n"
    )
    error = failure_of(RuntimeError(text))
    assert isinstance(error, JournalTruncated)
    assert (error.message, error.hint) == ("offset 3 is pruned away", "start again at 9")
    assert not may_pass(error)


def test_a_tasks_error_keeps_its_remedy() -> None:
    """A full disk and missing tables are told as the task told them, and only the first may pass."""
    told = f"jobwire.metrics.errors.SinkError: the tables in x: full ({FULL_HINT})\n\tat"
    full = failure_of(RuntimeError(told))
    assert isinstance(full, SinkError)
    assert (full.hint, full.facts["disk_full"], may_pass(full)) == (FULL_HINT, True, True)
    gone = failure_of(RuntimeError("jobwire.metrics.errors.DataLossError: journal j: 5 and on (rebuild)"))
    assert isinstance(gone, DataLossError)
    assert not may_pass(gone)
    away = failure_of(RuntimeError("jobwire.core.errors.StorageError: cannot read s3://b: timeout (wait)"))
    assert (away.message, away.hint, may_pass(away)) == ("cannot read s3://b: timeout", "wait", True)


def test_everything_else_may_pass() -> None:
    """A dead runner, a lost executor, a dead JVM: tried again."""
    error = failure_of(RuntimeError("Python worker exited unexpectedly (crashed)\nmore"))
    assert isinstance(error, QueryError)
    assert may_pass(error)
    assert may_pass(SinkError("full", disk_full=True))
    assert not may_pass(DataLossError("gone"))
    assert failure_of(ConfigError("x")).message == "x"


def test_progress_is_read_from_sparks_report() -> None:
    """Rows, duration and backlog over all sources, offsets as objects or as text."""
    health = read_progress(
        {
            "runId": "r",
            "batchId": 4,
            "numInputRows": 1,
            "observedMetrics": {"counts": {"rows": 5, "repeated": 2, "damaged": None}},
            "durationMs": {"triggerExecution": 81, "addBatch": 60},
            "sources": [
                {"endOffset": {"offset": 5}, "latestOffset": {"offset": 9}},
                {"endOffset": '{"offset": 1}', "latestOffset": '{"offset": 3}'},
                {"endOffset": None, "latestOffset": None},
            ],
        }
    )
    assert (health.batch_id, health.rows, health.duration_ms, health.backlog) == (4, 7, 81, 6)


class Terminal(io.StringIO):
    """An output that calls itself a terminal."""

    @override
    def isatty(self) -> bool:
        """Say yes."""
        return True


BATCH: dict[str, Any] = {"kind": "batch", "batch": 1, "rows": 5, "backlog": 0, "watermark_at": 1.0}


def test_a_terminal_sees_one_line() -> None:
    """Batches rewrite the line; a note stands on its own."""
    out = Terminal()
    with ProgressLine(out, clock=ManualClock(), as_json=False) as line:
        for _ in range(3):
            line(BATCH)
        line({"kind": "note", "text": "starting again"})
    assert out.getvalue().count("\n") == 2
    assert "15 rows" in out.getvalue()


def test_a_log_gets_a_line_now_and_then() -> None:
    """Elsewhere one line in ten seconds; with --json only notes, as objects."""
    out, clock = io.StringIO(), ManualClock()
    with ProgressLine(out, clock=clock, as_json=False) as line:
        for _ in range(25):
            line(BATCH)
            clock.advance(1.0)
    assert out.getvalue().count("\n") == 3
    machine = io.StringIO()
    with ProgressLine(machine, clock=clock, as_json=True) as line:
        line(BATCH)
        line({"kind": "note", "text": "x"})
    assert json.loads(machine.getvalue()) == {"kind": "note", "text": "x"}


def test_sessions_come_from_records_and_never_raise(tmp_path: Path) -> None:
    """No record, an unreadable one, a strange job id: the session is empty."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "0000000a.json").write_text("{")
    lookup = SessionLookup(tmp_path)
    assert [lookup(job) for job in ("0000000a", "0000000b")] == ["", ""]
