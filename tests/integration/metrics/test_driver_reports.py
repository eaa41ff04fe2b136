"""What a run tells of its batches: each once, whichever of Spark's reports it happens to look at."""

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from jobwire.metrics.driver import Driver
from jobwire.metrics.settings import load_metrics_settings


def progress(batch: int, *, rows: int = 5, **changed: object) -> Any:
    """Return Spark's report of a batch, as the query gives it."""
    body = {
        "runId": "r",
        "batchId": batch,
        "durationMs": {"triggerExecution": 7},
        "observedMetrics": {"counts": {"rows": rows, "repeated": 0, "damaged": 0}},
        "sources": [],
        **changed,
    }
    return SimpleNamespace(batchId=batch, json=json.dumps(body))


class Told:
    """A driver without Spark, and what it reports of a query whose reports a test makes."""

    def __init__(self, home: Path) -> None:
        self.reports: list[dict[str, object]] = []
        settings = load_metrics_settings(home, {}, {})
        self._driver = Driver(settings=settings, report=self.reports.append, stop=threading.Event())
        self._kept: list[Any] = []

    def look(self, *ended: Any) -> None:
        """Let batches end, and let the driver look once."""
        self._kept += ended
        query = SimpleNamespace(lastProgress=self._kept[-1], recentProgress=list(self._kept))
        self._driver._tell_batches(query)

    @property
    def batches(self) -> list[object]:
        """Return the batches that were told of."""
        return [report["batch"] for report in self.reports if report["kind"] == "batch"]


@pytest.fixture
def told(tmp_path: Path) -> Told:
    """Give a driver that looks at reports."""
    return Told(tmp_path)


def test_batches_between_two_looks_are_told(told: Told) -> None:
    """However many ended meanwhile, and however often it looks: each is told once, in order."""
    told.look(progress(0))
    told.look()
    told.look(progress(1), progress(2), progress(3))
    told.look()
    told.look(progress(4))
    assert told.batches == [0, 1, 2, 3, 4]


def test_a_report_that_is_not_understood_ends_nothing(told: Told) -> None:
    """It is told once; the batches after it are told as before."""
    told.look(progress(0, durationMs={"triggerExecution": "long"}))
    told.look()
    told.look(progress(1))
    assert told.batches == [1]
    assert [report["kind"] for report in told.reports] == ["note", "batch"]
