"""How `jobwire run` ends: as its command did, when its command did, whatever else still lives."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobwire.jobs.lifecycle import Status
from jobwire.registry.store import RecordStore
from jobwire.testing import EmbeddedServer, new_home, wait_for
from jobwire.testing.run_command import (
    newest_record,
    run_to_its_end,
    run_words,
    runs,
)
from jobwire.testing.watching import bare_environment


def result(home: Path) -> dict[str, object]:
    """Return the data of the newest job's last event."""
    found = newest_record(home).result
    assert found is not None
    data = found["data"]
    assert isinstance(data, dict)
    return data


@pytest.mark.parametrize("status", [255, 193, 130])
def test_an_exit_status_stays_one(embedded_broker: EmbeddedServer, status: int) -> None:
    """Exit statuses above 128 are told as what they are; ssh's 255 and a shell's 130 are no signals."""
    answer = run_to_its_end(embedded_broker.home, "--", "sh", "-c", f"exit {status}")
    assert answer.returncode == 1, answer.stderr
    assert newest_record(embedded_broker.home).detail == f"exit status {status}"
    assert result(embedded_broker.home)["exit_status"] == status


def test_a_real_time_signal_has_its_name(embedded_broker: EmbeddedServer) -> None:
    """A command that a real-time signal killed ends in error with the signal's name, and no exit status."""
    answer = run_to_its_end(embedded_broker.home, "--", "bash", "-c", "kill -36 $$")
    assert answer.returncode == 1, answer.stderr
    assert "SIGRTMIN+2" in newest_record(embedded_broker.home).detail
    assert result(embedded_broker.home)["signal"] == "SIGRTMIN+2"
    assert "exit_status" not in result(embedded_broker.home)


def test_a_background_child_does_not_hold_it_up(embedded_broker: EmbeddedServer, tmp_path: Path) -> None:
    """The job ends with its command; what that left in the background lives on, and its output is kept."""
    pid_file, go_on = tmp_path / "pid", tmp_path / "go-on"
    child = f"(while [ ! -e {go_on} ]; do sleep 0.1; done; echo later; sleep 300)"
    answer = run_to_its_end(
        embedded_broker.home, "--", "sh", "-c", f"{child} & echo $! > {pid_file}; echo hi", seconds=30
    )
    pid = int(pid_file.read_text())
    try:
        assert (answer.returncode, answer.stdout) == (0, "hi\n")
        log = Path(
            RecordStore(embedded_broker.home).log_dir(newest_record(embedded_broker.home).job_id),
            "output.log",
        )
        go_on.touch()
        wait_for(lambda: log.read_text() == "hi\nlater\n", what="what the child printed later")
        assert runs(pid)
    finally:
        os.killpg(os.getpgid(pid), signal.SIGKILL)


def test_a_cancelled_command_s_children_have_their_grace(
    embedded_broker: EmbeddedServer, tmp_path: Path
) -> None:
    """Where the command itself ends at once, what it started still gets the time to end in order."""
    ready, saved = tmp_path / "ready", tmp_path / "saved"
    child = f"trap 'sleep 1; touch {saved}; exit' TERM; touch {ready}; while :; do sleep 0.1; done"
    watcher = subprocess.Popen(
        run_words(embedded_broker.home, "--", "sh", "-c", f'sh -c "{child}" & wait'),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=bare_environment(),
    )
    wait_for(ready.exists, what="the child to run")
    watcher.send_signal(signal.SIGTERM)
    _, errors = watcher.communicate(timeout=60)
    assert watcher.returncode == 3, errors
    assert saved.exists()


def test_its_own_completed_hides_no_exit_status(embedded_broker: EmbeddedServer) -> None:
    """A command that says `completed` and then fails: the job is completed, its status is told, exit code 1.

    Nobody ends a command because its job has said its last word.
    """
    publish = f"{sys.executable} -m jobwire.cli.main publish"
    script = f"{publish} --event completed --detail done; sleep 2; echo end; exit 3"
    answer = run_to_its_end(embedded_broker.home, "--", "sh", "-c", script)
    assert answer.returncode == 1, answer.stderr
    assert "exit status 3" in answer.stderr
    assert "end\n" in answer.stdout
    record = newest_record(embedded_broker.home)
    assert (record.status, record.detail) == (Status.COMPLETED, "done")
    ending = Path(RecordStore(embedded_broker.home).log_dir(record.job_id), "ending.json")
    assert '"exit_status": 3' in ending.read_text()


def test_output_is_a_sign_of_life(embedded_broker: EmbeddedServer) -> None:
    """Who prints is not idle, whatever he prints; who is silent is."""
    script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo working; sleep 0.5; done"
    answer = run_to_its_end(embedded_broker.home, "--idle-timeout", "4", "--", "sh", "-c", script)
    assert answer.returncode == 0, answer.stderr
    silent = run_to_its_end(embedded_broker.home, "--idle-timeout", "2", "--", "sleep", "60")
    assert silent.returncode == 2, silent.stderr


def test_a_sign_of_life_does_not_answer_a_question(embedded_broker: EmbeddedServer) -> None:
    """While the job waits for a permission its output goes on, and the request stands."""
    script = (
        "echo '::permission may I?'; for i in 1 2 3 4 5 6 7 8; do echo waiting; sleep 0.6; done; kill -9 $$"
    )
    answer = run_to_its_end(embedded_broker.home, "--idle-timeout", "6", "--", "sh", "-c", script)
    assert answer.returncode == 1, answer.stderr
    assert answer.stderr.count(" progress ") == 0


def test_bytes_that_are_no_text(embedded_broker: EmbeddedServer) -> None:
    """A command gets the very bytes that it was given; title and events are readable text."""
    answer = run_to_its_end(
        embedded_broker.home,
        "--title",
        b"caf\xe9",
        "--",
        "sh",
        "-c",
        'printf %s "$1" | od -An -tx1',
        "sh",
        b"\xff\xfe",
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.split() == ["ff", "fe"]
    assert newest_record(embedded_broker.home).title.startswith("caf")
    missing = run_to_its_end(embedded_broker.home, "--", b"no-such-\xff")
    assert missing.returncode == 1, missing.stderr
    assert "command not found: no-such-" in newest_record(embedded_broker.home).detail


@pytest.mark.parametrize("words", [["ls", "-la"], ["--quiet", "ls", "-l", "--", "."], ["--", "ls", "--all"]])
def test_the_command_has_its_own_options(embedded_broker: EmbeddedServer, words: list[str]) -> None:
    """Options after the command's name are the command's, with `--` and without."""
    answer = run_to_its_end(embedded_broker.home, *words)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout


def test_it_returns_at_once(tmp_path: Path) -> None:
    """Without a broker a short command costs seconds, not tries."""
    began = time.monotonic()
    answer = run_to_its_end(new_home(tmp_path / "home"), "--", "true", MQTT_PORT="1")
    assert answer.returncode == 0, answer.stderr
    assert time.monotonic() - began < 15
    assert answer.stderr.count("sent later") == 1
