"""Mosquitto as the child of `jobwire broker up --mosquitto`: signals at every moment reach it."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from jobwire.broker import mosquitto
from jobwire.broker.home import BrokerPaths, prepare_home
from jobwire.broker.mosquitto import Listening, Mosquitto, configure, find_mosquitto, run_foreground
from jobwire.core.topics import DEFAULT_ROOT
from jobwire.testing import free_port, require, wait_for

HOST = "127.0.0.1"


@pytest.fixture
def broker(tmp_path: Path) -> Mosquitto:
    """Give a Mosquitto of its own home that is not started."""
    require("mosquitto")
    port, certificates = free_port(), free_port()
    prepare_home(
        tmp_path,
        port=port,
        topic_root=DEFAULT_ROOT,
        protocol="5",
        iterations=101,
        mtls_port=certificates,
    )
    configuration = configure(BrokerPaths(tmp_path), Listening(HOST, port, certificates))
    return Mosquitto(configuration, host=HOST, ports=(port, certificates))


def just_before_it_exists(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Do something between the installation of the handlers and the start of the child."""

    def find() -> str:
        act()
        return find_mosquitto()

    monkeypatch.setattr(mosquitto, "find_mosquitto", find)


@pytest.mark.mosquitto
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_end_that_comes_before_the_child_is_not_forgotten(
    broker: Mosquitto, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """A signal between the handlers and the child ends the child at once, with exit code 0."""

    def interrupt() -> None:
        os.kill(os.getpid(), number)
        wait_for(lambda: broker.ending, what="the signal's action")

    just_before_it_exists(monkeypatch, interrupt)
    ready: list[bool] = []
    assert run_foreground(broker, on_ready=lambda: ready.append(True)) == 0
    assert ready == []


@pytest.mark.mosquitto
def test_a_reload_that_comes_before_the_child_does_not_end_it(
    broker: Mosquitto, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGHUP while it starts waits until it is up; it is alive afterwards and ends on request."""
    just_before_it_exists(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGHUP))
    assert run_foreground(broker, on_ready=lambda: os.kill(os.getpid(), signal.SIGTERM)) == 0
