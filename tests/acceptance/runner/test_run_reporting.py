"""Reporting never delays the work and never prevents it."""

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobwire.jobs.lifecycle import Status
from jobwire.registry.store import RecordStore
from jobwire.storage import file_lock
from jobwire.testing import EmbeddedServer, free_port, new_home, wait_for
from jobwire.testing.run_command import newest_record, run_to_its_end, run_words
from jobwire.testing.unsent import unsent as unsent_events
from jobwire.testing.watching import bare_environment


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Give the port of a server that takes connections and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield int(listener.getsockname()[1])


def unsent(home: Path) -> list[str]:
    """Return the events of the newest job that still wait to be sent."""
    return [event.event for event in unsent_events(home, newest_record(home).job_id)]


def test_a_broker_that_is_not_trusted(embedded_broker: EmbeddedServer, tmp_path: Path) -> None:
    """A certificate that nobody vouches for: one warning, the command runs once, its ending is the answer."""
    home, ran = new_home(tmp_path / "home"), tmp_path / "ran"
    port = str(embedded_broker.settings("hermes").port)
    answer = run_to_its_end(
        home, "--", "sh", "-c", f"echo once >> {ran}; exit 3", MQTT_BROKER="localhost", MQTT_PORT=port
    )
    assert answer.returncode == 1, answer.stderr
    assert ran.read_text() == "once\n"
    assert answer.stderr.count("certificate") == 1, answer.stderr
    assert newest_record(home).detail == "exit status 3"
    assert unsent(home) == ["started", "error"]


def test_a_wrong_password(embedded_broker: EmbeddedServer, tmp_path: Path) -> None:
    """A broker that refuses the password: one warning, and the command runs."""
    settings = embedded_broker.settings("hermes")
    answer = run_to_its_end(
        new_home(tmp_path / "home"),
        "--",
        "echo",
        "alive",
        MQTT_BROKER="127.0.0.1",
        MQTT_PORT=str(settings.port),
        MQTT_CA_CERTS=str(settings.ca_certs),
        MQTT_USERNAME="hermes",
        MQTT_PASSWORD="wrong",
    )
    assert (answer.returncode, answer.stdout) == (0, "alive\n"), answer.stderr
    assert answer.stderr.count("sent later") == 1, answer.stderr


def test_a_broker_that_never_answers(silent_port: int, tmp_path: Path) -> None:
    """The command runs at once and ends when it ends; nobody waits for the broker's deadlines."""
    began = time.monotonic()
    answer = run_to_its_end(new_home(tmp_path / "home"), "--", "echo", "alive", MQTT_PORT=str(silent_port))
    assert (answer.returncode, answer.stdout) == (0, "alive\n"), answer.stderr
    assert time.monotonic() - began < 60
    assert answer.stderr.count("has not answered") == 1, answer.stderr
    assert unsent(tmp_path / "home") == ["started", "completed"]


def test_the_wall_timeout_holds_without_an_answer(silent_port: int, tmp_path: Path) -> None:
    """The wall limit runs from the beginning and ends the command also where no broker answers."""
    began = time.monotonic()
    answer = run_to_its_end(
        new_home(tmp_path / "home"), "--wall-timeout", "2", "--", "sleep", "300", MQTT_PORT=str(silent_port)
    )
    assert answer.returncode == 2, answer.stderr
    assert time.monotonic() - began < 150
    assert newest_record(tmp_path / "home").status is Status.CANCELLED


def test_the_wall_timeout_holds_without_a_watcher(tmp_path: Path) -> None:
    """A watcher that was killed leaves a job that still ends at its wall limit."""
    home, started = new_home(tmp_path / "home"), tmp_path / "started"
    watcher = subprocess.Popen(
        run_words(home, "--wall-timeout", "2", "--", "sh", "-c", f"touch {started}; exec sleep 300"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=bare_environment(MQTT_PORT="1"),
    )
    try:
        wait_for(started.exists, what="the command to run")
    finally:
        watcher.kill()
        watcher.wait()
    wait_for(lambda: newest_record(home).terminal, what="the job to end")
    assert "wall timeout" in newest_record(home).detail


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("MQTT_CA_CERTS", "/nowhere/ca.pem", "CA certificates"),
        ("MQTT_PORT", "many", "port"),
        ("MQTT_PASSWORD_FILE", "/nowhere/password", "password file"),
    ],
)
def test_what_is_known_before_is_refused_before(name: str, value: str, text: str, tmp_path: Path) -> None:
    """Settings that nobody can use are exit code 30, and neither job nor command begins."""
    ran = tmp_path / "ran"
    answer = run_to_its_end(new_home(tmp_path / "home"), "--", "touch", str(ran), environ={name: value})
    assert answer.returncode == 30, answer.stderr
    assert text in answer.stderr
    assert not ran.exists()
    assert not list((tmp_path / "home" / "jobs").iterdir())


def test_a_lock_that_is_held_long_costs_no_word(tmp_path: Path) -> None:
    """A worker waits on for its record's lock, says so, and the job ends as its command did.

    It gave up after one wait once: "the worker died without a last word".
    """
    home = new_home(tmp_path / "home")
    store = RecordStore(home)
    environ = {"MQTT_BROKER": "127.0.0.1", "MQTT_PORT": str(free_port()), "MQTT_TLS": "off"}
    with subprocess.Popen(
        run_words(home, "--", "true"),
        env=bare_environment() | environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        [job_id] = wait_for(lambda: list(store.job_ids()), what="the job", deadline_seconds=60)
        lock = wait_for(lambda: file_lock.try_acquire(store.lock_path(job_id)), what="its lock")
        assert lock is not None
        assert running.stderr is not None
        said = ""
        while "trying again" not in said:
            line = running.stderr.readline()
            assert line, said
            said += line
        file_lock.release(lock)
        said += running.stderr.read()
    assert running.returncode == 0, said
    assert newest_record(home).status is Status.COMPLETED
