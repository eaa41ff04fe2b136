"""`job_subscriber --until`, `--exec`: tell me when a job needs me."""

from pathlib import Path

import pytest

from jobwire.testing import EmbeddedServer, new_home, wait_for
from jobwire.testing.watching import JobHouse, Watcher


def test_until_permission(embedded_broker: EmbeddedServer, tmp_path: Path) -> None:
    """The watch ends with 0 when the job asks, the hook has run, and the job goes on."""
    house, said = JobHouse(embedded_broker.home), tmp_path / "said"
    job = house.register()
    hook = f"sh -c 'echo $JOBWIRE_EVENT $JOBWIRE_DETAIL >> {said}'"
    words = ("--job", job, "--until", "permission", "--exec", hook, "--bell")
    with Watcher(embedded_broker.home, *words) as watcher, house.worker(job) as worker:
        watcher.wait_until_watching()
        worker.started()
        worker.progress("on my way")
        worker.permission_required("may I push?")
        assert watcher.wait() == 0, watcher.errors()
        assert watcher.lines()[-1] == {
            "job_id": job,
            "reached": "permission",
            "status": "running",
            "detail": "may I push?",
            "exit_code": 0,
        }
        assert said.read_text() == "permission_required may I push?\n"
        assert not house.record(job).terminal
        worker.completed()


@pytest.mark.parametrize("moment", ["permission", "started"])
def test_until_a_moment_that_is_there_already(embedded_broker: EmbeddedServer, moment: str) -> None:
    """A job that has started and waits is found so at once, by its record alone."""
    house = JobHouse(embedded_broker.home)
    job = house.register()
    with house.worker(job) as worker:
        worker.started()
        worker.permission_required("may I?")
        with Watcher(embedded_broker.home, "--job", job, "--until", moment, "--format", "line") as watcher:
            assert watcher.wait() == 0
            assert watcher.errors() == f"job_subscriber: job {job}: reached {moment}: may I?\n"
        worker.completed()


def test_a_job_that_ends_without_asking(embedded_broker: EmbeddedServer, tmp_path: Path) -> None:
    """Its verdict's exit code, a line that says so, and the hook for the verdict."""
    house, said = JobHouse(embedded_broker.home), tmp_path / "said"
    job = house.register()
    hook = f"sh -c 'echo $JOBWIRE_EVENT $JOBWIRE_STATUS >> {said}; exit 3'"
    words = ("--job", job, "--until", "permission", "--exec", hook)
    with Watcher(embedded_broker.home, *words) as watcher, house.worker(job) as worker:
        watcher.wait_until_watching()
        worker.started()
        worker.error("no disk")
        assert watcher.wait() == 1
        assert f"job {job}: it ended without asking" in watcher.errors()
        assert "--exec" in watcher.errors()
    assert said.read_text() == "verdict error\n"


def test_without_until_the_hook_hears_of_everything_that_matters(
    embedded_broker: EmbeddedServer, tmp_path: Path
) -> None:
    """A permission and the verdict are told, starting and progress are not."""
    house, said = JobHouse(embedded_broker.home), tmp_path / "said"
    job = house.register()
    hook = f"sh -c 'echo $JOBWIRE_EVENT >> {said}'"
    with Watcher(embedded_broker.home, "--job", job, "--exec", hook) as watcher, house.worker(job) as worker:
        watcher.wait_until_watching()
        worker.started()
        worker.permission_required("may I?")
        wait_for(lambda: said.exists() and said.read_text(), what="the hook")
        worker.completed()
        assert watcher.wait() == 0
    assert said.read_text() == "permission_required\nverdict\n"


def test_a_hook_that_is_no_command(tmp_path: Path) -> None:
    """It is refused with exit code 30 before anything is watched."""
    with Watcher(new_home(tmp_path / "home"), "--all", "--exec", "no-such-program-anywhere") as watcher:
        assert watcher.wait() == 30
