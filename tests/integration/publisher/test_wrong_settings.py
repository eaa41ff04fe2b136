"""Somebody's typo in the settings costs a worker's event the delivery, never the event."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from jobwire.core.errors import ConfigError
from jobwire.jobs.record import JobRecord
from jobwire.publisher import Publisher
from jobwire.publisher.cli import main
from jobwire.registry.store import RecordStore
from jobwire.testing.unsent import unsent


@pytest.fixture
def job(tmp_path: Path, make_job: Callable[[Path], JobRecord], monkeypatch: pytest.MonkeyPatch) -> JobRecord:
    """Give a job in a home of its own, which is the one that commands here find."""
    for name in ("JOBWIRE_JOB", "JOBWIRE_ATTEMPT", "JOBWIRE_TICKET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JOBWIRE_HOME", str(tmp_path / ".hermes"))
    return make_job(tmp_path / ".hermes")


@pytest.mark.parametrize(
    ("text", "expiry", "remedy"),
    [
        ("[brokr]\nhost = 'x'\n", "60", "did you mean broker?"),
        ("[[[", "60", "correct the line"),
        ("", "soon", "use a whole number"),
    ],
)
def test_the_event_is_kept_and_the_settings_are_told(
    *,
    job: JobRecord,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    expiry: str,
    remedy: str,
) -> None:
    """The line says that it is the job's and not delivered; exit code 30, its cause and its remedy."""
    home = tmp_path / ".hermes"
    (home / "jobwire.toml").write_text(text)
    monkeypatch.setenv("JOBWIRE_EXPIRY_SECONDS", expiry)
    assert main(["--job", job.job_id, "--event", "started"]) == 30
    said = capsys.readouterr()
    assert json.loads(said.out) == {"job_id": job.job_id, "seq": 1, "event": "started", "delivered": False}
    assert remedy in said.err
    assert "the event is kept in" in said.err
    assert RecordStore(home).get(job.job_id).last_seq == 1
    assert [entry.seq for entry in unsent(home, job.job_id)] == [1]


def test_a_worker_in_python_goes_on(job: JobRecord, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A running worker is not ended by what somebody wrote into the settings meanwhile."""
    home = tmp_path / ".hermes"
    (home / "jobwire.toml").write_text("[brokr]\n")
    with Publisher(job.job_id, environ={}, home=home) as worker:
        said = [worker.started(), worker.progress("half"), worker.completed()]
    assert [(one.seq, one.delivered) for one in said] == [(1, False), (2, False), (3, False)]
    assert isinstance(said[-1].failure, ConfigError)
    assert "the event is kept" in caplog.text
    assert [entry.seq for entry in unsent(home, job.job_id)] == [1, 2, 3]
