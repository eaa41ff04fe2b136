"""`publish_event` beside a real registry process: handed over, and never worse off for it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobwire.testing import MosquittoServer, wait_for
from tests.acceptance.publisher.conftest import Command, new_command

JOBWIRE = str(Path(sys.executable).with_name("jobwire"))
_MODULES = """
import sys
before = set(sys.modules)
from jobwire.publisher.cli import main
code = main(sys.argv[1:])
print(*sorted(set(sys.modules) - before), file=sys.stderr)
sys.exit(code)
"""
# What a worker's start must not pay for. Of the standard library each costs 1 to 10 ms of 50.
_NOT_LOADED = {
    *("argparse", "asyncio", "dataclasses", "hashlib", "hmac", "logging", "pathlib", "queue", "selectors"),
    *("shlex", "socket", "ssl", "threading", "tomllib", "paho", "pydantic", "rfc8785"),
    *("jobwire.core.setting_tables", "jobwire.core.settings", "jobwire.delivery.outbox_sender"),
}
# Half a millisecond each: more want a reason.
_MODULES_OF_OURS = 63


@contextmanager
def serving(home: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run the registry process for the block."""
    with subprocess.Popen(
        [JOBWIRE, "--home", str(home), "serve", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["ready"]
            yield process
        finally:
            process.kill()


@pytest.fixture
def command(fresh_mosquitto: MosquittoServer) -> Command:
    """Give the command of a job whose broker is this test's own."""
    return new_command(fresh_mosquitto.home)


def test_little_is_loaded(command: Command) -> None:
    """The whole life of a job is confirmed, by processes that load no MQTT and little else."""
    with serving(Path(command.store.home)):
        for seq, event in enumerate(("started", "progress", "completed"), 1):
            where = ["--home", command.store.home, "--job", command.job_id]
            answer = subprocess.run(
                [sys.executable, "-c", _MODULES, *where, "--event", event],
                capture_output=True,
                text=True,
                check=True,
            )
            said = json.loads(answer.stdout)
            assert (said["seq"], said["delivered"], said["confirmed"]) == (seq, True, True)
            loaded = set(answer.stderr.split())
            assert not loaded & _NOT_LOADED
            assert sum(name.startswith("jobwire") for name in loaded) <= _MODULES_OF_OURS
    assert command.record().confirmed_seq == 3


def test_a_stopped_process_costs_a_moment(command: Command) -> None:
    """With the registry process under SIGSTOP the worker connects by itself, and nothing is lost."""
    with serving(Path(command.store.home)) as process:
        assert command.say("started").line["confirmed"] is True
        process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        answer = command.say("progress")
        assert (answer.code, answer.line["delivered"]) == (0, True), answer.stderr
        assert time.monotonic() - began < 15.0
        process.send_signal(signal.SIGCONT)
        wait_for(lambda: command.record().confirmed_seq == 2)
    assert command.history() == [1, 2]


def test_a_killed_process_is_passed_by(command: Command) -> None:
    """Its socket is still there, and nobody behind it: the worker connects by itself."""
    with serving(Path(command.store.home)) as process:
        command.say("started")
        os.kill(process.pid, signal.SIGKILL)
        process.wait(60)
        assert (Path(command.store.home) / "calls.sock").exists()
        assert command.say("progress").line["delivered"] is True
    with serving(Path(command.store.home)):
        assert command.say("completed").line["confirmed"] is True
        assert command.record().confirmed_seq == 3


def test_without_a_broker_the_event_is_kept(command: Command, fresh_mosquitto: MosquittoServer) -> None:
    """The process says that it has none: exit code 60, and a flush when the broker is back."""
    with serving(Path(command.store.home)):
        command.say("started")
        fresh_mosquitto.stop()
        answer = command.say("progress", "--attempts", "1")
        assert (answer.code, answer.line["delivered"]) == (60, False), answer.stderr
        assert "the event is kept in" in answer.stderr
        fresh_mosquitto.start()
        wait_for(lambda: command.record().confirmed_seq == 2, deadline_seconds=60)
