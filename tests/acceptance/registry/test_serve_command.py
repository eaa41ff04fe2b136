"""`jobwire serve` as an operator runs it: a real process, a real broker, real signals."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobwire.jobs.lifecycle import Status
from jobwire.jobs.ticket import decode_ticket
from jobwire.journal.reader import JournalReader
from jobwire.registry.store import RecordStore
from jobwire.testing import MosquittoServer, wait_for

BIN = Path(sys.executable).parent
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def _environ(home: Path) -> dict[str, str]:
    return {**os.environ, "JOBWIRE_HOME": str(home), "COLUMNS": "80"}


@pytest.fixture
def run(fresh_mosquitto: MosquittoServer) -> Run:
    """Give `run("jobwire", "registry", ...)` in the broker's home."""

    def call(program: str, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [BIN / program, *words],
            env=_environ(fresh_mosquitto.home),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return call


@contextmanager
def _serve(home: Path, *, ready: bool = True) -> Iterator["subprocess.Popen[str]"]:
    """Run `jobwire serve`; it is ended by the test or killed at the end."""
    process = subprocess.Popen(
        [BIN / "jobwire", "registry", "serve", "--json"],
        env=_environ(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        if ready:
            assert process.stdout is not None
            line = json.loads(process.stdout.readline())
            assert (line["ready"], line["pid"]) == (True, process.pid)
        yield process
    finally:
        process.kill()
        process.communicate()


def _end(process: "subprocess.Popen[str]", number: signal.Signals) -> str:
    process.send_signal(number)
    return process.communicate(timeout=60)[1]


def _register(run: Run) -> str:
    return str(json.loads(run("jobwire", "registry", "register", "--json").stdout)["job_id"])


def test_life_of_the_process(run: Run, fresh_mosquitto: MosquittoServer) -> None:
    """It says when it is ready, is healthy, confirms terminal events, and ends cleanly on SIGTERM."""
    home = fresh_mosquitto.home
    assert run("jobwire", "registry", "health").returncode == 40
    with _serve(home) as process:
        health = run("jobwire", "registry", "health", "--json")
        assert health.returncode == 0, health.stderr
        assert json.loads(health.stdout)["pid"] == process.pid
        second = run("jobwire", "registry", "serve")
        assert second.returncode == 20
        assert f"process {process.pid}" in second.stderr
        job = _register(run)
        assert run("publish_event", "--job", job, "--event", "started", "--detail", "go").returncode == 0
        said = run("publish_event", "--job", job, "--event", "completed", "--detail", "done")
        assert json.loads(said.stdout)["confirmed"] is True
        said_last = _end(process, signal.SIGTERM)
        assert "Traceback" not in said_last
        assert process.returncode == 0, said_last
    after = run("jobwire", "registry", "health")
    assert after.returncode == 50
    assert "not running" in after.stderr


def test_killed_process_goes_on(run: Run, fresh_mosquitto: MosquittoServer) -> None:
    """After SIGKILL the next process takes in what was said meanwhile, and nothing twice."""
    home = fresh_mosquitto.home
    with _serve(home) as process:
        job = _register(run)
        run("publish_event", "--job", job, "--event", "started", "--detail", "1")
        _end(process, signal.SIGKILL)
    run("publish_event", "--job", job, "--event", "progress", "--detail", "2")
    late = run("publish_event", "--job", job, "--event", "completed", "--detail", "3", "--confirm", "0.2")
    assert json.loads(late.stdout)["confirmed"] is False
    store = RecordStore(home)
    with _serve(home) as process:
        wait_for(lambda: store.get(job).confirmed_seq == 3, what="confirmation")
        _end(process, signal.SIGINT)
        assert process.returncode == 0
    with JournalReader(home / "journal") as reader:
        accepted = [json.loads(row.payload)["seq"] for row in reader.read(0) if row.verdict == "accepted"]
    assert accepted == [1, 2, 3]
    history = [line["seq"] for line in store.audit(job).lines() if line["kind"] == "event"]
    assert history == [1, 2, 3]


def test_wrong_password(fresh_mosquitto: MosquittoServer) -> None:
    """A broker that refuses us is exit code 70 with the remedy, not an endless retry."""
    password = fresh_mosquitto.home / "passwords" / "registry"
    password.write_text("wrong\n")
    with _serve(fresh_mosquitto.home, ready=False) as process:
        stderr = process.communicate(timeout=60)[1]
    assert process.returncode == 70
    assert "password" in stderr


def test_broker_comes_later(run: Run, fresh_mosquitto: MosquittoServer) -> None:
    """Without a broker it says so and waits; SIGTERM still ends it, and it works once there is one."""
    fresh_mosquitto.stop()
    with _serve(fresh_mosquitto.home, ready=False) as process:
        assert process.stderr is not None
        assert "trying again" in process.stderr.readline()
        assert run("jobwire", "registry", "health").returncode == 60
        _end(process, signal.SIGTERM)
        assert process.returncode == 0
    with _serve(fresh_mosquitto.home, ready=False) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        process.stderr.readline()
        fresh_mosquitto.start()
        assert json.loads(process.stdout.readline())["ready"] is True


@pytest.mark.parametrize("flags", [(), ("--certificate",)])
def test_ticket(run: Run, fresh_mosquitto: MosquittoServer, tmp_path: Path, flags: tuple[str, ...]) -> None:
    """A ticket is secret, claims a pending job, and is all that a worker elsewhere needs to report it."""
    job = _register(run)
    path = tmp_path / "job.ticket"
    with path.open("w") as file:  # as a shell's redirection: readable by others at first
        subprocess.run(
            [BIN / "jobwire", "registry", "ticket", job, *flags],
            env=_environ(fresh_mosquitto.home),
            stdout=file,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    ticket = decode_ticket(path.read_bytes())
    assert ("certfile_pem" in ticket.broker, "password" in ticket.broker) == (bool(flags), not flags)
    store = RecordStore(fresh_mosquitto.home)
    assert store.get(job).status is Status.RUNNING
    assert run("jobwire", "registry", "pick").returncode == 10
    elsewhere = {**os.environ, "JOBWIRE_HOME": str(tmp_path / "elsewhere")}
    with _serve(fresh_mosquitto.home):
        for kind in ("started", "completed"):
            said = subprocess.run(
                [BIN / "publish_event", "--ticket", str(path), "--event", kind, "--detail", "x"],
                env=elsewhere,
                capture_output=True,
                text=True,
                check=False,
            )
            assert said.returncode == 0, said.stderr
        wait_for(lambda: store.get(job).status is Status.COMPLETED, what="the end")
    finished = run("jobwire", "registry", "ticket", job)
    assert finished.returncode == 20


def test_a_ticket_never_carries_the_registrys_account(run: Run, fresh_mosquitto: MosquittoServer) -> None:
    """Where the environment names the registry's account, as a service's does, the worker gets its own."""
    job = _register(run)
    home = fresh_mosquitto.home
    secret = home / "passwords" / "registry"
    account = {"MQTT_USERNAME": "registry", "MQTT_PASSWORD_FILE": str(secret)}
    said = subprocess.run(
        [BIN / "jobwire", "registry", "ticket", job],
        env={**_environ(home), **account},
        capture_output=True,
        check=True,
        timeout=60,
    )
    ticket = decode_ticket(said.stdout)
    assert ticket.broker["username"] == "claude-worker"
    assert secret.read_text().strip().encode() not in said.stdout


def test_purge_command(run: Run, fresh_mosquitto: MosquittoServer) -> None:
    """`purge` clears and removes by the ages that it is given."""
    job = _register(run)
    run("publish_event", "--job", job, "--event", "started")
    run("jobwire", "registry", "cancel", job)
    kept = json.loads(run("jobwire", "registry", "purge", "--json").stdout)
    assert kept == {"cleared": 0, "removed": 0}
    result = run(
        "jobwire", "registry", "purge", "--keep-retained", "0.00000001", "--keep-records", "0.00000001"
    )
    assert "cleared 1 jobs at the broker, removed 1" in result.stdout, result.stderr
    assert run("jobwire", "registry", "show", job).returncode == 40
    assert [file.name for file in fresh_mosquitto.home.glob(f"*/{job}*") if file.parent.name != "queue"] == []
