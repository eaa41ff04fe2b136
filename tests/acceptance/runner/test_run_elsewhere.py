"""`jobwire run --tmux` and `--detach`: the job lives apart from the terminal that began it."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord
from jobwire.registry.store import RecordStore
from jobwire.testing import EmbeddedServer, new_home, wait_for
from jobwire.testing.watching import bare_environment

JOBWIRE = [sys.executable, "-m", "jobwire.cli.main"]


def words(home: Path, *more: str) -> list[str]:
    """Return the command line of `jobwire ...` on a home."""
    return [*JOBWIRE, "--home", str(home), *more]


def jobwire(home: Path, *more: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run `jobwire ...` to its end."""
    return subprocess.run(
        words(home, *more),
        capture_output=True,
        text=True,
        env=bare_environment(**variables),
        timeout=60,
        check=False,
    )


def begin(home: Path, *more: str) -> "subprocess.Popen[str]":
    """Start `jobwire run ...`."""
    return subprocess.Popen(
        words(home, "run", *more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=bare_environment(),
    )


def named(home: Path, title: str) -> JobRecord:
    """Return the record with this title."""
    store = RecordStore(home)
    return next(record for record in map(store.get, store.job_ids()) if record.title == title)


def ended(home: Path, job_id: str) -> JobRecord:
    """Wait for the job's end and return its record."""
    store = RecordStore(home)
    wait_for(lambda: store.get(job_id).terminal, what="the job's end")
    return store.get(job_id)


def test_in_a_tmux_pane(embedded_broker: EmbeddedServer, tmux_server: str) -> None:
    """The worker runs in a window of that session and has the pane's terminal; the verdict comes here."""
    script = 'echo "in pane $TMUX_PANE of $TERM"; exit 3'
    answer = jobwire(
        embedded_broker.home,
        *("run", "--title", "pane", "--tmux-socket", tmux_server, "--tmux", "work"),
        *("--", "sh", "-c", script),
        TMUX="/elsewhere,1,1",
        TMUX_PANE="%99",
        TERM="dumb",
    )
    assert answer.returncode == 1, answer.stderr
    record = named(embedded_broker.home, "pane")
    pane = record.extra["tmux"]
    assert isinstance(pane, dict)
    assert (pane["session"], pane["socket"].endswith(tmux_server)) == ("work", True)
    log = Path(RecordStore(embedded_broker.home).log_dir(record.job_id), "output.log")
    said = log.read_text()
    assert said.startswith(f"in pane {pane['pane']} of ")
    assert "dumb" not in said


def test_six_at_once_in_one_new_session(embedded_broker: EmbeddedServer, tmux_server: str) -> None:
    """Six jobs that begin together in a session which is not there yet all run to their end."""
    many = [
        begin(embedded_broker.home, "--tmux-socket", tmux_server, "--tmux", "many", "--", "true")
        for _ in range(6)
    ]
    said = [(one.communicate(timeout=60)[1], one.returncode) for one in many]
    assert Counter(code for _, code in said) == {0: 6}, said


@pytest.mark.parametrize("name", ["a:b", "v1.2", ""])
def test_a_name_that_tmux_reads_otherwise_registers_nothing(tmp_path: Path, name: str) -> None:
    """A session's name that tmux would take apart is exit code 30, before anything is registered."""
    answer = jobwire(new_home(tmp_path / "home"), "run", "--tmux", name, "--", "true")
    assert answer.returncode == 30
    assert "tmux session" in answer.stderr
    assert not list((tmp_path / "home" / "jobs").iterdir())


def test_a_watcher_that_loses_its_terminal_leaves_a_job_in_its_pane(
    embedded_broker: EmbeddedServer, tmux_server: str, tmp_path: Path
) -> None:
    """SIGHUP ends the watching of a job in a pane with 129, and the job goes on to its own end."""
    go = tmp_path / "go"
    os.mkfifo(go)
    watcher = begin(
        embedded_broker.home,
        *("--title", "kept", "--tmux-socket", tmux_server, "--tmux", "work", "--", "cat", str(go)),
    )
    assert watcher.stderr is not None
    assert any("started" in line for line in watcher.stderr)
    watcher.send_signal(signal.SIGHUP)
    _, errors = watcher.communicate(timeout=60)
    assert watcher.returncode == 129, errors
    record = named(embedded_broker.home, "kept")
    assert record.status is Status.RUNNING
    go.write_text("went on\n")
    assert ended(embedded_broker.home, record.job_id).status is Status.COMPLETED


def test_without_a_pane_a_lost_terminal_cancels(embedded_broker: EmbeddedServer) -> None:
    """SIGHUP cancels a job whose output goes to the terminal that is gone."""
    watcher = begin(embedded_broker.home, "--title", "hung up", "--", "sleep", "300")
    assert watcher.stderr is not None
    assert any("started" in line for line in watcher.stderr)
    watcher.send_signal(signal.SIGHUP)
    watcher.communicate(timeout=60)
    assert watcher.returncode == 3
    assert named(embedded_broker.home, "hung up").detail == "cancelled by SIGHUP"


def test_a_detached_job_goes_on_by_itself(embedded_broker: EmbeddedServer, tmp_path: Path) -> None:
    """--detach prints the id alone and returns while the command runs; its output is kept."""
    go = tmp_path / "go"
    os.mkfifo(go)
    answer = jobwire(embedded_broker.home, "run", "--detach", "--", "cat", str(go))
    assert answer.returncode == 0, answer.stderr
    job_id = answer.stdout.strip()
    assert answer.stdout == f"{job_id}\n"
    assert RecordStore(embedded_broker.home).get(job_id).status is Status.RUNNING
    go.write_text("by itself\n")
    assert ended(embedded_broker.home, job_id).status is Status.COMPLETED
    log = Path(RecordStore(embedded_broker.home).log_dir(job_id), "output.log")
    assert log.read_text() == "by itself\n"


def test_a_detached_job_keeps_its_limits(embedded_broker: EmbeddedServer) -> None:
    """A wall timeout ends a detached job as one in the foreground; --json names id and output."""
    answer = jobwire(
        embedded_broker.home, "run", "--detach", "--json", "--wall-timeout", "1", "--", "sleep", "300"
    )
    body = json.loads(answer.stdout)
    assert Path(body["output"]).name == "output.log"
    record = ended(embedded_broker.home, body["job_id"])
    assert record.status is Status.CANCELLED
    assert "wall timeout" in record.detail


def test_a_detached_job_holds_nothing_of_the_shell(embedded_broker: EmbeddedServer, tmp_path: Path) -> None:
    """Neither the shell's pipe nor a file that the shell has open is held by the job."""
    lock = tmp_path / "lock"
    script = (
        f"exec 9>{lock}; flock 9; "
        f"job=$({' '.join(words(embedded_broker.home, 'run', '--detach', '--', 'sleep', '300'))}); "
        f"exec 9>&-; flock -n {lock} echo free $job"
    )
    answer = subprocess.run(
        ["sh", "-c", script],
        capture_output=True,
        text=True,
        env=bare_environment(),
        timeout=60,
        check=False,
    )
    said = answer.stdout.split()
    assert said[:1] == ["free"], answer.stderr
    assert jobwire(embedded_broker.home, "cancel", said[1]).returncode == 0


def test_what_cannot_begin_is_said_before_the_command_returns(tmp_path: Path) -> None:
    """A detached job that cannot be started is an error here, and no job stays behind as running."""
    answer = jobwire(new_home(tmp_path / "home"), "run", "--detach", "--mtls", "--", "true")
    assert answer.returncode in {30, 40}, answer.stderr
    assert answer.stdout == ""
    assert "certs init" in answer.stderr
    store = RecordStore(tmp_path / "home")
    assert [store.get(job_id).status for job_id in store.job_ids()] == [Status.CANCELLED]
