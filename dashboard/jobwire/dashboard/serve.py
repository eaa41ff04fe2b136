"""Putting the server together and running it until it is told to stop."""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import ssl
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import uvicorn
from starlette.applications import Starlette

from jobwire.core.clock import Clock, SystemClock
from jobwire.core.errors import ConfigError, StorageError
from jobwire.core.override import override
from jobwire.core.settings import Secret
from jobwire.dashboard.auth import Bind, Gate, check_bind, page_token
from jobwire.dashboard.broadcast import Broadcaster
from jobwire.dashboard.coordination.acting import person_name
from jobwire.dashboard.coordination.looking import StoreWatch
from jobwire.dashboard.coordination.routes import StoreRoutes
from jobwire.dashboard.fleet import Thresholds
from jobwire.dashboard.follower import follow
from jobwire.dashboard.login import LoginRoutes
from jobwire.dashboard.login_throttle import LoginThrottle
from jobwire.dashboard.model import FleetModel
from jobwire.dashboard.open_pages import OpenPage, OpenPages
from jobwire.dashboard.page_figures import PageFigures
from jobwire.dashboard.records import warn_operator
from jobwire.dashboard.server import Pages, build_app, load_assets
from jobwire.dashboard.tables import TablesLocator
from jobwire.dashboard.waiting import WaitingHistory
from jobwire.registry.queue import JobQueue
from jobwire.registry.store import RecordStore
from jobwire.storage.home_paths import HomePaths
from jobwire.storage.named_files import check_named_file
from jobwire.storage.user import user_name

_BACKLOG = 128
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_WAITS_SECONDS = 86_400.0
# Of a request line with its headers: more is refused before it is kept.
_MAX_HEAD = 16_384


class Settings(NamedTuple):
    """What `jobwire dashboard` was asked to do."""

    home: Path
    bind: Bind
    limits: Thresholds = Thresholds()
    allow_actions: bool = False
    poll: bool = False
    metrics_database: str | None = None


def build(settings: Settings, token: Secret, *, clock: Clock) -> tuple[Starlette, Broadcaster]:
    """Return the application, following the fleet while it runs."""
    gate = Gate(bind=settings.bind, secret=token)
    author = author_of(settings.bind)
    store = RecordStore(settings.home, clock=clock)
    model = FleetModel(store, limits=settings.limits, poll=settings.poll)
    broadcaster = Broadcaster(start_id=secrets.token_hex(4))
    figures = PageFigures(
        model=model,
        broadcaster=broadcaster,
        waits=WaitingHistory(HomePaths(settings.home).journal, seconds=_WAITS_SECONDS),
        tables=TablesLocator(home=settings.home, location=settings.metrics_database),
        clock=clock,
    )
    person, watch = person_name(author), StoreWatch(settings.home)
    shown = {
        "home": str(settings.home.absolute()),
        "actions": "yes" if settings.allow_actions else "no",
        "author": author,
        "person": person,
    }
    assets, throttle = load_assets(shown), LoginThrottle()
    pages = Pages(
        model=model,
        queue=JobQueue(store, warn=warn_operator),
        figures=figures,
        broadcaster=broadcaster,
        assets=assets,
        store_routes=StoreRoutes(
            home=settings.home,
            watch=watch,
            broadcaster=broadcaster,
            clock=clock,
            person=person,
            allow_actions=settings.allow_actions,
        ),
        clock=clock,
        author=author,
        allow_actions=settings.allow_actions,
    )
    form = assets["login.html"].body.decode()
    login = LoginRoutes(gate=gate, throttle=throttle, clock=clock, form=form)
    app = build_app(pages, login, gate=gate, throttle=throttle, clock=clock)
    app.router.lifespan_context = lambda _: _following(model, watch, broadcaster, clock)
    return app, broadcaster


@contextlib.asynccontextmanager
async def _following(
    model: FleetModel, watch: StoreWatch, broadcaster: Broadcaster, clock: Clock
) -> AsyncIterator[None]:
    stop = threading.Event()
    tasks = (
        asyncio.create_task(follow(model, broadcaster, clock=clock, warn=warn_operator)),
        asyncio.create_task(asyncio.to_thread(watch.run, stop)),
    )
    tasks[1].add_done_callback(_tell_defect)
    try:
        yield
    finally:
        broadcaster.close()
        stop.set()
        await asyncio.gather(*tasks, return_exceptions=True)


def _tell_defect(watching: asyncio.Task[None]) -> None:
    """Tell the operator at once of a defect that ended the watch: views of the store would stand still."""
    error = None if watching.cancelled() else watching.exception()
    if error is not None:
        warn_operator("".join(traceback.format_exception(error)))


class _Server(uvicorn.Server):
    """Ends the streams at the first signal: uvicorn waits for them, and they never end by themselves."""

    def __init__(self, config: uvicorn.Config, broadcaster: Broadcaster, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._broadcaster = broadcaster
        self._ready = ready

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; called between two steps of the event loop."""
        self._broadcaster.close()
        super().handle_exit(sig, frame)

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then tell."""
        await super().startup(sockets)
        self._ready()

    @contextlib.contextmanager
    @override
    def capture_signals(self) -> Iterator[None]:
        """Take the signals in the event loop, and end with exit code 0.

        uvicorn would take them in the middle of whatever runs, and raise them again afterwards.
        """
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)


def author_of(bind: Bind) -> str:
    """Return who cancels on the page: its owner, where nobody else has the token, else the page itself."""
    return user_name() if bind.own_token else f"page on {socket.gethostname()}"


def run(settings: Settings, *, announce: Callable[[OpenPage], None]) -> None:
    """Serve until SIGINT or SIGTERM; `announce` gets the page when requests are answered.

    Raises ConfigError where the address is taken or the settings are not safe.
    """
    clock = SystemClock()
    check_bind(settings.bind)
    token = page_token(settings.bind)
    listener = listen(settings.bind)
    port = listener.getsockname()[1]
    bind = settings.bind._replace(port=port)
    app, broadcaster = build(settings._replace(bind=bind), token, clock=clock)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        # h11 refuses a head that is too large; nothing here speaks WebSocket.
        http="h11",
        h11_max_incomplete_event_size=_MAX_HEAD,
        ws="none",
        timeout_graceful_shutdown=5,
        ssl_certfile=bind.certfile,
        ssl_keyfile=bind.keyfile,
    )
    load_tls(config)
    page = OpenPage(address(bind, port), token.reveal() if bind.own_token else "", os.getpid())
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(OpenPages(settings.home).listed(page, port))
        except StorageError as error:
            warn_operator(f"--link will not show this page: {error}")
        _Server(config, broadcaster, lambda: announce(page)).run(sockets=[listener])


def load_tls(config: uvicorn.Config) -> None:
    """Read certificate and key. Raises ConfigError."""
    if config.ssl_certfile is not None and config.ssl_keyfile is not None:
        check_named_file(config.ssl_certfile, "certificate", hint="see --certfile")
        check_named_file(config.ssl_keyfile, "private key", private=True, hint="see --keyfile")
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"cannot use the certificate or its key: {error}", hint="see --certfile and --keyfile"
        ) from error
    if config.ssl is not None:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_3


def listen(bind: Bind) -> socket.socket:
    """Return the listening socket. Raises ConfigError."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            bind.host, bind.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"cannot listen on {bind.host}: {error}", hint="see --host") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {bind.host} port {bind.port}: {error.strerror}",
            hint="another dashboard may run there; --port 0 takes any free port",
        ) from error
    return listener


def address(bind: Bind, port: int) -> str:
    """Return the URL to print."""
    host = f"[{bind.host}]" if ":" in bind.host else bind.host
    return f"{'https' if bind.tls else 'http'}://{host}:{port}/"
