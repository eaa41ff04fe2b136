"""Pytest fixtures for real brokers: shared ones for the session, fresh ones for a test that breaks them."""

import subprocess
import uuid
from collections.abc import Iterator

import pytest

from jobwire.testing.embedded_server import EmbeddedServer
from jobwire.testing.mosquitto_server import MosquittoServer
from jobwire.testing.object_store import ObjectStore
from jobwire.testing.process import BrokerProcess
from jobwire.testing.requirements import require

_BOTH = ("mosquitto", "embedded")


def _new_server(name: str) -> BrokerProcess:
    if name == "mosquitto":
        require("mosquitto")
        return MosquittoServer()
    return EmbeddedServer()


@pytest.fixture(scope="session")
def mosquitto() -> Iterator[MosquittoServer]:
    """Share Mosquitto (MQTT 5 by its settings): use own topics and client ids, do not stop it."""
    require("mosquitto")
    with MosquittoServer() as server:
        yield server


@pytest.fixture(scope="session")
def embedded_broker() -> Iterator[EmbeddedServer]:
    """Share the embedded broker (MQTT 3.1.1): use own topics and client ids, do not stop it."""
    with EmbeddedServer() as server:
        yield server


@pytest.fixture(params=_BOTH)
def broker(request: pytest.FixtureRequest) -> BrokerProcess:
    """Give each shared broker in turn."""
    fixture = "mosquitto" if request.param == "mosquitto" else "embedded_broker"
    server = request.getfixturevalue(fixture)
    assert isinstance(server, BrokerProcess)  # noqa: S101 - narrows the type
    return server


@pytest.fixture
def fresh_mosquitto() -> Iterator[MosquittoServer]:
    """Start Mosquitto for one test: it may be stopped, killed and restarted."""
    require("mosquitto")
    with MosquittoServer() as server:
        yield server


@pytest.fixture
def fresh_embedded_broker() -> Iterator[EmbeddedServer]:
    """Start the embedded broker for one test: it may be stopped, killed and restarted."""
    with EmbeddedServer() as server:
        yield server


@pytest.fixture(params=_BOTH)
def fresh_broker(request: pytest.FixtureRequest) -> Iterator[BrokerProcess]:
    """Start each kind of broker in turn, for one test that may stop, kill and restart it."""
    with _new_server(request.param) as server:
        yield server


@pytest.fixture
def object_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """Start an S3 store for one test, with its keys in the environment: it may be killed and started."""
    with ObjectStore() as store:
        for name, value in store.environ.items():
            monkeypatch.setenv(name, value)
        yield store


@pytest.fixture
def tmux_server() -> Iterator[str]:
    """Give the name of a tmux server (`tmux -L`) that nobody else uses; it is ended afterwards."""
    program = require("tmux")
    name = f"jobwire-test-{uuid.uuid4().hex[:8]}"
    yield name
    subprocess.run([program, "-L", name, "kill-server"], capture_output=True, check=False)
