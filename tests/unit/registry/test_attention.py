"""`on_attention`: once for each new request, also over a restart, and never longer than it may."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jobwire.core.errors import ConfigError
from jobwire.core.lease import LeaseGrant
from jobwire.jobs import fold
from jobwire.jobs.event import Event
from jobwire.jobs.record import JobRecord
from jobwire.registry.attention import AttentionHook
from jobwire.registry.store import RecordStore
from jobwire.storage.settings_file import read_own_settings, read_settings
from jobwire.testing import wait_for

NOW = 1_767_323_045.0


def asking(job: JobRecord, *names: str) -> JobRecord:
    """Return the job with open requests of these names."""
    record = fold.claim(job, LeaseGrant("w"), NOW)
    record = fold.apply_event(record, Event(1, job.job_id, "started", job.created_at, "", {}), NOW)
    for seq, name in enumerate(names, 2):
        body = {"id": name, "kind": "question", "text": "go\non?"}
        event = Event(seq, job.job_id, "permission_required", job.created_at, "", {"request": body})
        record = fold.apply_event(record, event, NOW)
    return record


def hook(store: RecordStore, out: Path) -> AttentionHook:
    """Return a hook that writes down what it was told of."""
    say = "printf '%s %s %s\\n' $JOBWIRE_REQUEST_JOB $JOBWIRE_REQUEST \"$JOBWIRE_REQUEST_TEXT\" >> $OUT"
    return AttentionHook(store, ["sh", "-c", say], environ={"OUT": str(out), "PATH": "/usr/bin:/bin"})


def told(out: Path) -> list[str]:
    """Return what was written down."""
    return out.read_text().splitlines() if out.exists() else []


def test_each_request_is_told_of_once(store: RecordStore, job: JobRecord, tmp_path: Path) -> None:
    """However often its record comes by, and after a restart: only what is new."""
    out = tmp_path / "told"
    first = hook(store, out)
    for _ in range(3):
        first.look(asking(job, "a"))
    wait_for(lambda: told(out) == [rf"{job.job_id} a go\non?"])
    first.close()
    again = hook(store, out)
    again.look(asking(job, "a", "b"))
    wait_for(lambda: len(told(out)) == 2)
    again.close()
    assert told(out)[1].split()[1] == "b"


def test_a_command_that_hangs_or_is_not_there_holds_up_nothing(
    store: RecordStore, job: JobRecord, caplog: pytest.LogCaptureFixture
) -> None:
    """It is ended with all it started, the next one is run, and the log says so."""
    words = [sys.executable, "-c", "import time; time.sleep(600)"]
    slow = AttentionHook(store, words, environ={}, seconds=0.2)
    slow.look(asking(job, "a"))
    wait_for(lambda: "was ended after" in caplog.text)
    slow.close()
    missing = AttentionHook(store, ["/no/such/program"], environ={})
    missing.look(asking(job, "b"))
    wait_for(lambda: "could not be run" in caplog.text)
    missing.close()


def test_no_home_can_name_the_command(tmp_path: Path, make_own: Callable[[str], dict[str, str]]) -> None:
    """In a home it is an error; in the user's own file a list of words."""
    text = '[registry]\non_attention = ["notify"]\n'
    (tmp_path / "jobwire.toml").write_text(text)
    with pytest.raises(ConfigError, match="on_attention"):
        read_settings(tmp_path)
    assert read_own_settings(make_own(text)).get("registry", "on_attention") == ["notify"]


@pytest.fixture
def make_own(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Give a function that writes the user's own settings and returns the environment that finds them."""

    def write(text: str) -> dict[str, str]:
        folder = tmp_path / "config" / "jobwire"
        folder.mkdir(parents=True)
        (folder / "jobwire.toml").write_text(text)
        (folder / "jobwire.toml").chmod(0o600)
        return {"XDG_CONFIG_HOME": str(tmp_path / "config")}

    return write
