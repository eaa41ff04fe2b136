"""`jobwire run` as a person uses it: real processes, a real broker, real signals."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobwire.jobs.lifecycle import Status
from jobwire.registry.store import RecordStore
from jobwire.testing import BrokerProcess, EmbeddedServer, new_home, wait_for
from jobwire.testing.run_command import (
    event_names,
    newest_record,
    run_to_its_end,
    run_words,
    runs,
)
from jobwire.testing.unsent import unsent
from jobwire.testing.watching import bare_environment


def test_a_command_that_succeeds(embedded_broker: EmbeddedServer) -> None:
    """Output passes through and is kept, progress is recorded, the record holds the result, exit code 0."""
    script = "echo '::progress half 50%'; echo to-stderr >&2; echo done"
    answer = run_to_its_end(embedded_broker.home, "--title", "two steps", "--", "sh", "-c", script)
    assert answer.returncode == 0, answer.stderr
    assert "done" in answer.stdout
    assert "to-stderr" in answer.stderr
    record = newest_record(embedded_broker.home)
    assert (record.status, record.title) == (Status.COMPLETED, "two steps")
    assert record.result is not None
    result = record.result["data"]
    assert isinstance(result, dict)
    assert result["exit_status"] == 0
    assert result["duration_seconds"] >= 0
    assert event_names(embedded_broker.home, record.job_id) == ["started", "progress", "completed"]
    log = Path(RecordStore(embedded_broker.home).log_dir(record.job_id), "output.log")
    assert "done" in log.read_text()
    assert "to-stderr" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("words", "figures", "text"),
    [
        (["sh", "-c", "exit 7"], {"exit_status": 7}, "exit status 7"),
        (["sh", "-c", "kill -9 $$"], {"signal": "SIGKILL"}, "SIGKILL"),
        (["no-such-program-anywhere"], {"exit_status": 127}, "not found"),
    ],
)
def test_a_command_that_fails(
    embedded_broker: EmbeddedServer, words: list[str], figures: dict[str, object], text: str
) -> None:
    """The job ends in error with the command's own exit status or signal; exit code 1."""
    answer = run_to_its_end(embedded_broker.home, "--", *words)
    assert answer.returncode == 1, answer.stderr
    record = newest_record(embedded_broker.home)
    assert record.status is Status.ERROR
    assert text in record.detail
    assert record.result is not None
    assert isinstance(record.result["data"], dict)
    assert figures.items() <= record.result["data"].items()


def test_secrets_in_output_do_not_reach_the_wire(embedded_broker: EmbeddedServer) -> None:
    """What is taken from output is redacted: the record and history hold neither path nor token."""
    script = "echo '::progress saved /home/someone/x with token=abc123 and s3cr3t-value'"
    answer = run_to_its_end(embedded_broker.home, "--", "sh", "-c", script, DEPLOY_TOKEN="s3cr3t-value")
    assert answer.returncode == 0
    folder = Path(RecordStore(embedded_broker.home).log_dir(newest_record(embedded_broker.home).job_id))
    told = (folder / "events.ndjson").read_text()
    assert "[redacted]" in told
    for secret in ("/home/someone", "abc123", "s3cr3t-value"):
        assert secret not in told
    assert not (folder / "worker.json").exists()


def test_a_title_stays_as_typed_here_and_is_shortened_on_the_wire(embedded_broker: EmbeddedServer) -> None:
    """The command's path stands in the record; `started` names the program alone; bytes are no obstacle."""
    words = [sys.executable, "-c", "pass", os.fsdecode(b"caf\xe9")]
    answer = run_to_its_end(embedded_broker.home, "--", *words)
    assert (answer.returncode, "Traceback" in answer.stderr) == (0, False), answer.stderr
    record = newest_record(embedded_broker.home)
    assert record.title == f"{sys.executable} -c pass 'caf\ufffd'"
    log = Path(RecordStore(embedded_broker.home).log_dir(record.job_id), "events.ndjson")
    events = [
        line["event"] for line in map(json.loads, log.read_text().splitlines()) if line["kind"] == "event"
    ]
    assert events[0]["detail"] == f"…/{Path(sys.executable).name} -c pass 'caf\ufffd'"


def test_ctrl_c_cancels_the_job_and_ends_everything(embedded_broker: EmbeddedServer, tmp_path: Path) -> None:
    """SIGINT makes the job cancelled, ends the command's whole group, and gives exit code 3."""
    pid_file = tmp_path / "pid"
    script = f"sleep 300 & echo $! > {pid_file}; wait"
    watcher = subprocess.Popen(
        run_words(embedded_broker.home, "--", "sh", "-c", script),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=bare_environment(),
    )
    wait_for(lambda: pid_file.exists() and pid_file.read_text().strip(), what="the command to run")
    watcher.send_signal(signal.SIGINT)
    _, errors = watcher.communicate(timeout=60)
    assert watcher.returncode == 3, errors
    assert newest_record(embedded_broker.home).status is Status.CANCELLED
    wait_for(lambda: not runs(int(pid_file.read_text())), what="the grandchild to be gone")


def test_a_wall_timeout_ends_the_job(embedded_broker: EmbeddedServer) -> None:
    """The wall timeout gives exit code 2, says so, and the command does not go on."""
    answer = run_to_its_end(embedded_broker.home, "--wall-timeout", "1", "--", "sleep", "300")
    assert answer.returncode == 2, answer.stderr
    assert "wall" in answer.stderr
    assert newest_record(embedded_broker.home).status is Status.CANCELLED


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["--idle-timeout", "1", "--", "sleep", "300"], 2, "idle timeout: no event for 1 s"),
        (["--", "sh", "-c", "exit 7"], 1, "error: exit status 7"),
        (["--", "echo", "hi"], 0, ""),
    ],
)
def test_quiet_names_the_reason_where_it_fails(
    embedded_broker: EmbeddedServer, words: list[str], code: int, reason: str
) -> None:
    """--quiet says nothing of a success; of everything else stderr has one line that says which and why."""
    answer = run_to_its_end(embedded_broker.home, "--quiet", *words)
    assert answer.returncode == code, answer.stderr
    said = f"jobwire: job {newest_record(embedded_broker.home).job_id}: {reason}\n" if reason else ""
    assert answer.stderr == said


def test_without_a_broker_the_job_still_runs(tmp_path: Path) -> None:
    """No broker: the command runs, the record gives the verdict, the events wait in the outbox."""
    home = new_home(tmp_path / "home")
    answer = run_to_its_end(home, "--", "echo", "alone", MQTT_PORT="1")
    assert answer.returncode == 0, answer.stderr
    assert "alone" in answer.stdout
    record = newest_record(home)
    assert record.status is Status.COMPLETED
    assert unsent(home, record.job_id)


def test_a_killed_worker_is_an_error_not_a_hang(embedded_broker: EmbeddedServer) -> None:
    """SIGKILL of the worker ends the job in error within seconds, saying why."""
    script = "kill -9 $PPID; sleep 1"
    answer = run_to_its_end(embedded_broker.home, "--", "sh", "-c", script)
    assert answer.returncode == 1, answer.stderr
    assert "died" in newest_record(embedded_broker.home).detail


def test_a_silent_command_cancelled_from_elsewhere_stops(
    embedded_broker: EmbeddedServer, tmp_path: Path
) -> None:
    """`jobwire registry cancel` reaches a command that never says anything."""
    started = tmp_path / "started"
    watcher = subprocess.Popen(
        run_words(embedded_broker.home, "--", "sh", "-c", f"touch {started}; exec sleep 300"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=bare_environment(),
    )
    wait_for(started.exists, what="the command to run")
    job_id = newest_record(embedded_broker.home).job_id
    cancel = [
        sys.executable,
        "-m",
        "jobwire.cli.main",
        "--home",
        str(embedded_broker.home),
        "registry",
        "cancel",
    ]
    assert (
        subprocess.run([*cancel, job_id], capture_output=True, env=bare_environment(), check=False).returncode
        == 0
    )
    _, errors = watcher.communicate(timeout=60)
    assert watcher.returncode == 3, errors


def test_with_a_certificate_for_the_job_alone(broker: BrokerProcess) -> None:
    """--mtls: the worker authenticates as the job itself, on both brokers, and every event is delivered."""
    answer = run_to_its_end(broker.home, "--mtls", "--", "echo", "confined")
    assert answer.returncode == 0, answer.stderr
    assert "outbox" not in answer.stderr
    record = newest_record(broker.home)
    assert (broker.home / "certs" / "clients" / f"{record.job_id}.pem").exists()
    assert unsent(broker.home, record.job_id) == []


def test_mtls_without_an_authority_registers_nothing_that_runs(tmp_path: Path) -> None:
    """Without certificates --mtls explains itself, and the job does not stay behind as running."""
    answer = run_to_its_end(new_home(tmp_path / "home"), "--mtls", "--", "true")
    assert answer.returncode in {30, 40}, answer.stderr
    assert "certs init" in answer.stderr
    assert newest_record(tmp_path / "home").status is Status.CANCELLED


@pytest.mark.parametrize(
    "words", [[], ["--"], ["--wall-timeout", "0", "--", "true"], ["--wall-timeout", "x", "--", "true"]]
)
def test_usage_errors(words: list[str], tmp_path: Path) -> None:
    """A missing command or an impossible timeout is exit code 30, and nothing is registered."""
    home = new_home(tmp_path / "home")
    answer = run_to_its_end(home, *words)
    assert answer.returncode == 30
    assert not list((home / "jobs").glob("*.json"))
