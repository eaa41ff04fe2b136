"""What `jobwire metrics` shows from tables, without Spark."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from jobwire.cli.main import main
from jobwire.core.exit_codes import ExitCode
from jobwire.metrics.show import tables
from jobwire.testing import new_home
from jobwire.testing.fleet_writer import FleetWriter
from jobwire.testing.metric_tables import speak, write_tables

NOW = time.time()
MISSING = "3 jobs of this registry are missing in the metrics"


@pytest.fixture
def writer(tmp_path: Path) -> FleetWriter:
    """Give a home with two finished jobs and a running one from before any journal, and a pending one."""
    made = FleetWriter(tmp_path / "home")
    for _ in range(2):
        made.say(made.start(), "completed")
    made.start()
    made.register()
    return made


def journaled(writer: FleetWriter) -> str:
    """Add a job whose events the registry process confirmed."""
    job_id = writer.start()
    with writer.store.locked(job_id) as locked:
        locked.replace(locked.record._replace(confirmed_seq=1), cause="journaled")
    return job_id


def run(home: Path, *words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of `jobwire metrics`."""
    code = main(["--home", str(home), "metrics", *words])
    return code, *capsys.readouterr()


@pytest.mark.parametrize("words", [["show"], ["plot", "--out", "fleet.png"]])
def test_before_the_first_run(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where nothing was computed yet, readers of the tables end with 40 and name the command that does."""
    new_home(tmp_path / "home")
    code, _, errors = run(tmp_path / "home", *words, capsys=capsys)
    assert code == ExitCode.NOT_FOUND
    assert "no metrics yet" in errors
    assert "jobwire metrics once" in errors


def test_an_empty_file_is_no_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A database in which the first run never made its tables is the same as none."""
    (new_home(tmp_path / "home") / "metrics").mkdir(mode=0o700)
    (tmp_path / "home" / "metrics" / "metrics.db").touch()
    code, _, errors = run(tmp_path / "home", "show", capsys=capsys)
    assert (code, "no metrics yet" in errors) == (ExitCode.NOT_FOUND, True)


def test_jobs_that_no_journal_saw_are_counted(
    writer: FleetWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    """Jobs that spoke before the registry process ran are named as missing, in `show` and in `status`."""
    write_tables(writer.home, int(NOW) - 600)
    speak(writer.home, updated_at=NOW)
    journaled(writer)
    assert MISSING in " ".join(run(writer.home, "show", capsys=capsys)[1].split())
    assert MISSING in run(writer.home, "status", capsys=capsys)[1]
    assert json.loads(run(writer.home, "show", "--json", capsys=capsys)[1])["unjournaled_jobs"] == 3


def test_nothing_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the journal saw every job, nothing is said; nor where the registry is on another host."""
    write_tables(tmp_path, int(NOW) - 600)
    speak(tmp_path, updated_at=NOW)
    assert "missing" not in run(tmp_path, "show", capsys=capsys)[1]
    journaled(FleetWriter(tmp_path))
    assert "missing" not in run(tmp_path, "show", capsys=capsys)[1]


def test_no_length_of_time_is_negative(tmp_path: Path) -> None:
    """A recorder whose clock stands ahead of ours, or was set back, makes no length below 0, nor -0.0."""
    write_tables(tmp_path, int(NOW) + 3600)
    found = tables(str(tmp_path / "metrics" / "metrics.db"), now=NOW, minutes=60, home=tmp_path)
    lengths = [_of(found, "open_jobs", "silent_s"), _of(found, "slowest", "duration_s")]
    assert [str(value) for value in lengths] == ["0.0", "60.0"]


def _of(found: dict[str, Any], table: str, column: str) -> object:
    return found[table][0][column]
