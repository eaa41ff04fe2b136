"""Homes and brokers for the tests of the brokers."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobwire.broker.embedded import EmbeddedBroker
from jobwire.broker.hardened.limits import BrokerLimits
from jobwire.broker.home import prepare_home
from jobwire.core.topics import DEFAULT_ROOT
from jobwire.testing import free_port
from jobwire.testing.raw_mqtt import ConnectionClosedError, ConnectRefusedError
from jobwire.testing.stock_broker import StockBroker
from jobwire.testing.threaded_broker import Served, StartBroker, ThreadedBroker

ITERATIONS = 101


@pytest.fixture(scope="session")
def prepared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Share one home with certificates and passwords; tests that change files copy it."""
    home = tmp_path_factory.mktemp("broker") / "home"
    prepare_home(home, port=8883, topic_root=DEFAULT_ROOT, iterations=ITERATIONS)
    return home


@pytest.fixture
def own_home(prepared_home: Path, tmp_path: Path) -> Path:
    """Copy the shared home for a test that changes it."""
    return Path(shutil.copytree(prepared_home, tmp_path / "home"))


@pytest.fixture
def start_broker(prepared_home: Path) -> Iterator[StartBroker]:
    """Return a function that starts a broker of `kind` with `limits` on `home`."""
    running: list[ThreadedBroker[Served]] = []

    def start(
        kind: str = "hardened", *, limits: BrokerLimits | None = None, home: Path | None = None
    ) -> ThreadedBroker[Served]:
        port, where = free_port(), home or prepared_home

        def make() -> Served:
            if kind == "stock":
                return StockBroker(where, port)
            if kind == "stock without users":
                return StockBroker(where, port, own_users=False)
            return EmbeddedBroker(home=where, port=port, limits=limits)

        broker = ThreadedBroker[Served](where, port, make)
        broker.__enter__()
        running.append(broker)
        return broker

    yield start
    for broker in running:
        broker.__exit__()


# What a hole looks like from outside. Anything else is a broken test, not a hole.
_SHOWS = (AssertionError, pytest.fail.Exception, ConnectionClosedError, ConnectRefusedError, TimeoutError)


@pytest.fixture(
    params=[
        "hardened",
        pytest.param(
            "stock",
            marks=pytest.mark.xfail(strict=True, raises=_SHOWS, reason="a hole of amqtt as it comes"),
        ),
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    """Name each kind of broker: what holds on ours must fail on amqtt as it comes."""
    return str(request.param)
