"""The routes: files, streams, questions, two actions. HTTP only; the content is made elsewhere."""

import hashlib
import html
from collections.abc import AsyncIterator, Mapping
from importlib import resources
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from jobwire.core.clock import Clock
from jobwire.core.errors import InvalidInputError, JobwireError
from jobwire.core.topics import check_job_id
from jobwire.dashboard.auth import Gate
from jobwire.dashboard.broadcast import Broadcaster
from jobwire.dashboard.coordination.routes import VIEWS, StoreRoutes
from jobwire.dashboard.fleet import tally
from jobwire.dashboard.foreign import whole_number
from jobwire.dashboard.job_page import job_page
from jobwire.dashboard.login import LoginRoutes
from jobwire.dashboard.login_throttle import LoginThrottle
from jobwire.dashboard.middleware import AccessMiddleware
from jobwire.dashboard.model import FleetModel
from jobwire.dashboard.page_figures import PageFigures
from jobwire.dashboard.prometheus import CONTENT_TYPE, exposition
from jobwire.dashboard.responses import (
    MAX_ANSWER_BODY,
    action_route,
    event_message,
    json_response,
    no_route,
    read_object,
    refusal,
)
from jobwire.dashboard.timeline import begin_at, entry_of, read_chunk
from jobwire.jobs.requests import Answer
from jobwire.registry.queue import JobQueue
from jobwire.registry.requests import give_answer

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".html": "text/html"}
_EVENT_STREAM = "text/event-stream"
_MAX_REASON = 200
# The history's file is looked at again this often, and at every change of the fleet.
_HISTORY_SECONDS = 0.25
_SIGN_OF_LIFE_LOOKS = 12


class Asset(NamedTuple):
    """One file of the page."""

    body: bytes
    media_type: str
    tag: str


def load_assets(values: Mapping[str, str]) -> dict[str, Asset]:
    """Return name -> file of the package; `{{name}}` in HTML becomes the escaped value."""
    assets = {}
    for path in resources.files("jobwire.dashboard").joinpath("assets").iterdir():
        suffix = f".{path.name.rpartition('.')[2]}"
        if suffix not in _TYPES:
            continue
        body = path.read_bytes()
        if suffix == ".html":
            for name, value in values.items():
                body = body.replace(f"{{{{{name}}}}}".encode(), html.escape(value).encode())
        tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        assets[path.name] = Asset(body, _TYPES[suffix], tag)
    return assets


class Pages:
    """The handlers; each answers one request."""

    def __init__(
        self,
        *,
        model: FleetModel,
        queue: JobQueue,
        figures: PageFigures,
        broadcaster: Broadcaster,
        assets: Mapping[str, Asset],
        store_routes: StoreRoutes,
        clock: Clock,
        author: str,
        allow_actions: bool,
    ) -> None:
        self._store_routes = store_routes
        self._model = model
        self._store = model.source.store
        self._queue = queue
        self._figures = figures
        self._broadcaster = broadcaster
        self._assets = assets
        self._clock = clock
        self._author = author
        self._allow_actions = allow_actions
        self._open_pages = 0

    def routes(self) -> list[Route]:
        """Return every route."""
        return [
            Route("/", self.page),
            Route("/jobs/{job_id}", self.page),
            *(Route(path, self.page) for path in ("/charts", "/feed", *VIEWS)),
            Route("/assets/{name}", self.asset),
            Route("/api/stream", self.stream),
            Route("/api/summary", self.summary),
            Route("/api/jobs/{job_id}", self.job),
            Route("/api/jobs/{job_id}/stream", self.job_stream),
            action_route("/api/jobs/{job_id}/cancel", self.cancel, allowed=self._allow_actions),
            action_route("/api/jobs/{job_id}/answer", self.answer, allowed=self._allow_actions),
            Route("/api/metrics", self.metrics),
            Route("/metrics", self.prometheus),
            Route("/healthz", self.health),
            *self._store_routes.routes(self._streaming),
        ]

    async def page(self, request: Request) -> Response:
        """Answer with the one page; it finds its view from the address."""
        return self._file(request, "index.html")

    async def asset(self, request: Request) -> Response:
        """Answer with a file of the package, to anybody; not with the pages, which name this home."""
        name = str(request.path_params["name"])
        return self._file(request, "" if name.endswith(".html") else name)

    async def stream(self, request: Request) -> Response:
        """Answer with the fleet and then its changes, for as long as the page is open."""
        return self._streaming(request, self._broadcaster.stream(_last_id(request)))

    async def summary(self, request: Request) -> Response:  # noqa: ARG002 - a handler's form
        """Answer with the number of jobs in each group."""
        rows = self._broadcaster.rows.values()
        return json_response({"now": self._clock.now(), "counts": tally(rows)})

    async def job(self, request: Request) -> Response:
        """Answer with one job."""
        job_id = _job_id(request)
        known = self._broadcaster.rows.get(job_id)
        return json_response(await run_in_threadpool(job_page, self._model, job_id, known))

    async def job_stream(self, request: Request) -> Response:
        """Answer with a job's history and then each new line; the event id is the place in the file."""
        job_id, last_id = _job_id(request), _last_id(request)
        await run_in_threadpool(self._store.get, job_id)
        return self._streaming(request, self._history(job_id, whole_number(last_id)))

    async def cancel(self, request: Request) -> Response:
        """Cancel a job, where actions were allowed at the start."""
        job_id = _job_id(request)
        reason = (await read_object(request)).get("reason", "")
        if not isinstance(reason, str) or len(reason) > _MAX_REASON:
            raise InvalidInputError(f"the reason is a text of at most {_MAX_REASON} characters")
        cause = f"{reason.strip() or 'cancelled'} (by {self._author})"
        record, done = await run_in_threadpool(self._queue.cancel, job_id, reason=cause, by=self._author)
        return json_response({"job_id": record.job_id, "status": str(record.status), "cancelled": done})

    async def answer(self, request: Request) -> Response:
        """Answer what a job asks, where actions were allowed at the start."""
        job_id, said = _job_id(request), await read_object(request, MAX_ANSWER_BODY)
        name, text, always = said.get("request"), said.get("text"), said.get("always", False)
        if not isinstance(name, str) or not isinstance(text, str) or not isinstance(always, bool):
            raise InvalidInputError(
                "an answer names its request, and has a text", hint='{"request": ID, "text": "yes"}'
            )
        given = Answer(text, self._author, "page", always)
        asked = await run_in_threadpool(give_answer, self._queue, job_id, given, request_id=name)
        return json_response({"job_id": job_id, "request": name, "state": str(asked.request.state)})

    async def metrics(self, request: Request) -> Response:
        """Answer with the figures of a range."""
        seconds = request.query_params.get("range", "")
        report = await run_in_threadpool(self._figures.report, whole_number(seconds) or 0)
        body = {**report._asdict(), "freshness": report.freshness._asdict(), "now": self._clock.now()}
        return json_response(body)

    async def prometheus(self, request: Request) -> Response:  # noqa: ARG002 - a handler's form
        """Answer with the text that Prometheus reads."""
        text = await run_in_threadpool(exposition, lambda: self._figures.scrape(self._open_pages))
        return Response(text, headers={"content-type": CONTENT_TYPE})

    async def health(self, request: Request) -> Response:  # noqa: ARG002 - a handler's form
        """Answer whether the fleet is known and followed."""
        well = self._broadcaster.ready and not self._broadcaster.moment.trouble
        return PlainTextResponse("ok\n" if well else "not ready\n", 200 if well else 503)

    async def _history(self, job_id: str, start: int | None) -> AsyncIterator[bytes]:
        path = self._store.audit(job_id).events_path
        position = start if start is not None else await run_in_threadpool(begin_at, path)
        yield event_message("begin", {"start": position, "now": self._clock.now()}, str(position))
        shown_row: object = None
        looks = 0
        while not self._broadcaster.closed:
            try:
                chunk, alive = read_chunk(path, position), looks >= _SIGN_OF_LIFE_LOOKS
                record = self._store.get(job_id) if chunk.lines or alive else None
            except JobwireError as error:
                # Purged, or damaged by now: an open stream can only say so.
                yield event_message("gone", {"error": error.message}, str(position))
                return
            if chunk.lines and record is not None:
                position = chunk.end
                yield event_message("lines", [entry_of(line, record) for line in chunk.lines], str(position))
                continue
            row = self._broadcaster.rows.get(job_id)
            if row is not shown_row and row is not None:
                shown_row, looks = row, 0
                yield event_message("row", {"now": self._clock.now(), **row._asdict()}, str(position))
            elif alive:
                looks = 0
                yield event_message("alive", {"now": self._clock.now()}, str(position))
            looks += 1
            await self._broadcaster.changed(_HISTORY_SECONDS)

    def _streaming(self, request: Request, messages: AsyncIterator[bytes]) -> Response:
        if request.method == "HEAD":
            return Response(media_type=_EVENT_STREAM)

        async def counted() -> AsyncIterator[bytes]:
            self._open_pages += 1
            try:
                yield b"retry: 500\n\n"
                async for message in messages:
                    yield message
            finally:
                self._open_pages -= 1

        return StreamingResponse(counted(), media_type=_EVENT_STREAM)

    def _file(self, request: Request, name: str) -> Response:
        asset = self._assets.get(name)
        if asset is None:
            raise HTTPException(404)
        # Always asked again, seldom sent again: a new version of the package shows at once.
        headers = {"etag": asset.tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == asset.tag:
            return Response(status_code=304, headers=headers)
        return Response(asset.body, media_type=asset.media_type, headers=headers)


def build_app(
    pages: Pages, login: LoginRoutes, *, gate: Gate, throttle: LoginThrottle, clock: Clock
) -> Starlette:
    """Return the application."""
    app = Starlette(
        routes=[*login.routes(), *pages.routes()],
        middleware=[Middleware(AccessMiddleware, gate=gate, throttle=throttle, clock=clock)],
        exception_handlers={HTTPException: no_route, JobwireError: refusal},
    )
    # It would lead to whatever name stands in the Host header.
    app.router.redirect_slashes = False
    return app


def _job_id(request: Request) -> str:
    return check_job_id(str(request.path_params["job_id"]))


def _last_id(request: Request) -> str:
    """Return what the page has seen: its browser says so when it reconnects, its script at other times."""
    return request.headers.get("last-event-id") or request.query_params.get("after", "")
