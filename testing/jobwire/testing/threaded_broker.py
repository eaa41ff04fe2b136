"""A broker in a thread of the test process, for tests that set its limits or reload its files."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from jobwire.broker.hardened.limits import BrokerLimits
from jobwire.broker.home import BrokerPaths
from jobwire.testing.raw_mqtt import RawClient, Will, client_context

HOST = "127.0.0.1"
_CALL_SECONDS = 60.0
_T = TypeVar("_T")


class Served(Protocol):
    """What can be run: the embedded broker, or another with the same two methods."""

    async def start(self) -> None:
        """Start to accept connections."""
        ...

    async def stop(self) -> None:
        """Stop."""
        ...


_B = TypeVar("_B", bound=Served)


class ThreadedBroker(Generic[_B]):
    """A broker in a thread of its own, and clients for it."""

    def __init__(self, home: Path, port: int, make: Callable[[], _B]) -> None:
        self.home = home
        self.paths = BrokerPaths(home)
        self.port = port
        self._make = make
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._clients: list[RawClient] = []
        self._broker: _B | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.drop()
        if self._broker is not None:
            self.run(self._broker.stop())
        self.run(_end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_SECONDS)
        self._loop.close()

    async def _start(self) -> None:
        self._broker = self._make()
        await self._broker.start()

    @property
    def broker(self) -> _B:
        """Return the broker itself, once started."""
        if self._broker is None:
            raise RuntimeError("the broker was not started")
        return self._broker

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the broker's loop and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_CALL_SECONDS)

    def call(self, function: Callable[[], None]) -> None:
        """Run a function in the broker's loop."""

        async def called() -> None:
            function()

        self.run(called())

    def open(self, certfile: Path | None = None, keyfile: Path | None = None, **options: Any) -> RawClient:
        """Return a TLS connection on which nothing was said yet."""
        context = client_context(self.paths.ca, certfile, keyfile, tls12=options.pop("tls12", False))
        client = RawClient(HOST, self.port, context, **options)
        self._clients.append(client)
        return client

    def password(self, role: str) -> str:
        """Return the password of a role."""
        return self.paths.password(role).read_text().strip()

    def client(
        self,
        role: str,
        client_id: str = "",
        *,
        clean: bool = True,
        keep_alive: int = 60,
        will: Will | None = None,
        deadline_seconds: float = 6.0,
    ) -> RawClient:
        """Return a connected client of a role."""
        return self.open(deadline_seconds=deadline_seconds).connect(
            client_id,
            username=role,
            password=self.password(role),
            clean=clean,
            keep_alive=keep_alive,
            will=will,
        )


async def _end_tasks() -> None:
    """Cancel what a broker left behind: a task collected after its loop is closed is an error elsewhere."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


class StartBroker(Protocol):
    """The fixture `start_broker`: starts a broker of `kind` ("hardened" or "stock")."""

    def __call__(
        self, kind: str = "hardened", *, limits: BrokerLimits | None = None, home: Path | None = None
    ) -> "ThreadedBroker[Any]":
        """Start and return it; the fixture ends it."""
        ...
