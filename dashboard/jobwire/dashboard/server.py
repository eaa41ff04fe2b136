"""The routes: files, streams, questions, one action. HTTP only; the answers are the desk's."""

import asyncio
import hashlib
import html
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from importlib import resources
from typing import NamedTuple
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from jobwire.core.clock import Clock
from jobwire.core.errors import ConflictError, InvalidInputError, JobwireError, NotFoundError
from jobwire.core.topics import check_job_id
from jobwire.dashboard.auth import SESSION_SECONDS, Gate
from jobwire.dashboard.broadcast import Broadcaster
from jobwire.dashboard.desk import Desk
from jobwire.dashboard.fleet import tally
from jobwire.dashboard.guard import Guard
from jobwire.dashboard.prometheus import CONTENT_TYPE, exposition
from jobwire.dashboard.timeline import begin_at, entry, read_chunk

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".html": "text/html"}
_EVENT_STREAM = "text/event-stream"
_MAX_BODY = 4096
# A wrong secret costs this much, one after the other: half a million tries take three days.
_WRONG_SECONDS = 0.5
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
        desk: Desk,
        broadcaster: Broadcaster,
        gate: Gate,
        assets: Mapping[str, Asset],
        clock: Clock,
        allow_actions: bool,
    ) -> None:
        self._desk = desk
        self._broadcaster = broadcaster
        self._gate = gate
        self._assets = assets
        self._clock = clock
        self._allow_actions = allow_actions
        self._login_turn = asyncio.Lock()
        self._open_pages = 0

    def routes(self) -> list[Route]:
        """Return every route."""
        return [
            Route("/", self.page),
            Route("/jobs/{job_id}", self.page),
            Route("/charts", self.page),
            Route("/assets/{name}", self.asset),
            Route("/login", self.login_page, methods=["GET"]),
            Route("/login", self.login, methods=["POST"]),
            Route("/logout", self.logout, methods=["POST"]),
            Route("/api/stream", self.stream),
            Route("/api/summary", self.summary),
            Route("/api/jobs/{job_id}", answered(self.job)),
            Route("/api/jobs/{job_id}/stream", answered(self.job_stream)),
            Route("/api/jobs/{job_id}/cancel", answered(self.cancel), methods=["POST"]),
            Route("/api/metrics", answered(self.metrics)),
            Route("/metrics", self.prometheus),
            Route("/healthz", self.health),
        ]

    async def page(self, request: Request) -> Response:
        """Answer with the one page; it finds its view from the address."""
        return self._file(request, "index.html")

    async def asset(self, request: Request) -> Response:
        """Answer with a file of the package."""
        return self._file(request, str(request.path_params["name"]))

    async def login_page(self, request: Request) -> Response:
        """Answer with the login form."""
        return self._file(request, "wrong.html" if "wrong" in request.query_params else "login.html")

    async def login(self, request: Request) -> Response:
        """Take the secret, answer with a cookie."""
        fields = parse_qs((await _body(request)).decode("utf-8", "replace"))
        async with self._login_turn:
            if not self._gate.secret_fits(fields.get("secret", [""])[0].strip()):
                await asyncio.sleep(_WRONG_SECONDS)
                return RedirectResponse("/login?wrong", 303)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            self._gate.cookie_name,
            self._gate.new_cookie(self._clock.now()),
            max_age=SESSION_SECONDS,
            secure=self._gate.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return answer

    async def logout(self, request: Request) -> Response:  # noqa: ARG002 - a handler's form
        """Take the cookie back."""
        answer = RedirectResponse("/login", 303)
        secure = self._gate.scheme == "https"
        answer.delete_cookie(self._gate.cookie_name, secure=secure, httponly=True, samesite="strict")
        return answer

    async def stream(self, request: Request) -> Response:
        """Answer with the fleet and then its changes, for as long as the page is open."""
        return self._streaming(self._broadcaster.stream(_last_id(request)))

    async def summary(self, request: Request) -> Response:  # noqa: ARG002 - a handler's form
        """Answer with the number of jobs in each group."""
        rows = self._broadcaster.rows.values()
        return JSONResponse({"now": self._clock.now(), "counts": tally(rows)})

    async def job(self, request: Request) -> Response:
        """Answer with one job."""
        return JSONResponse(await run_in_threadpool(self._desk.job, _job_id(request)))

    async def job_stream(self, request: Request) -> Response:
        """Answer with a job's history and then each new line; the event id is the place in the file."""
        job_id, last_id = _job_id(request), _last_id(request)
        await run_in_threadpool(self._desk.record, job_id)
        start = int(last_id) if last_id.isdecimal() else None
        return self._streaming(self._history(job_id, start))

    async def cancel(self, request: Request) -> Response:
        """Cancel a job, where actions were allowed at the start."""
        if not self._allow_actions:
            return JSONResponse(
                {"error": "this page is read-only", "hint": "start it with --allow-actions"}, 403
            )
        job_id = _job_id(request)
        try:
            body = json.loads(await _body(request) or b"{}")
            reason = str(body.get("reason", ""))
        except (ValueError, AttributeError) as error:
            raise InvalidInputError("the body is not a JSON object") from error
        reason = reason[:200] or "cancelled on the page"
        return JSONResponse(await run_in_threadpool(self._desk.cancel, job_id, reason))

    async def metrics(self, request: Request) -> Response:
        """Answer with the figures of a range."""
        seconds = request.query_params.get("range", "")
        report = await run_in_threadpool(self._desk.report, int(seconds) if seconds.isdecimal() else 0)
        body = {**report._asdict(), "freshness": report.freshness._asdict(), "now": self._clock.now()}
        return JSONResponse(body)

    async def prometheus(self, request: Request) -> Response:  # noqa: ARG002 - a handler's form
        """Answer with the text that Prometheus reads."""
        text = await run_in_threadpool(exposition, lambda: self._desk.figures(self._open_pages))
        return Response(text, headers={"content-type": CONTENT_TYPE})

    async def health(self, request: Request) -> Response:  # noqa: ARG002 - a handler's form
        """Answer whether the fleet is known and followed."""
        well = self._broadcaster.ready and not self._broadcaster.moment.trouble
        return PlainTextResponse("ok\n" if well else "not ready\n", 200 if well else 503)

    async def _history(self, job_id: str, start: int | None) -> AsyncIterator[bytes]:
        path = self._desk.history_path(job_id)
        position = start if start is not None else await run_in_threadpool(begin_at, path)
        yield _message("begin", {"start": position, "now": self._clock.now()}, str(position))
        shown_row: object = None
        looks = 0
        while not self._broadcaster.closed:
            chunk = read_chunk(path, position)
            if chunk.lines:
                record = self._desk.record(job_id)
                entries = [entry(line, record) for line in map(_decoded, chunk.lines)]
                position = chunk.end
                yield _message("lines", entries, str(position))
                continue
            row = self._broadcaster.rows.get(job_id)
            looks += 1
            if row is not shown_row and row is not None:
                shown_row, looks = row, 0
                yield _message("row", {"now": self._clock.now(), **row._asdict()}, str(position))
            elif looks >= _SIGN_OF_LIFE_LOOKS:
                looks = 0
                yield _message("alive", {"now": self._clock.now()}, str(position))
            await self._broadcaster.changed(_HISTORY_SECONDS)

    def _streaming(self, messages: AsyncIterator[bytes]) -> Response:
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
            return PlainTextResponse("no such file\n", 404)
        # Always asked again, seldom sent again: a new version of the package shows at once.
        headers = {"etag": asset.tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == asset.tag:
            return Response(status_code=304, headers=headers)
        return Response(asset.body, media_type=asset.media_type, headers=headers)


Handler = Callable[[Request], Awaitable[Response]]


def answered(handler: Handler) -> Handler:
    """Turn our errors into answers with cause and remedy."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except JobwireError as error:
            return JSONResponse({"error": error.message, "hint": error.hint}, _status(error))

    return handle


def build_app(pages: Pages, *, gate: Gate, clock: Clock) -> Starlette:
    """Return the application."""
    return Starlette(routes=pages.routes(), middleware=[Middleware(Guard, gate=gate, clock=clock)])


def _status(error: JobwireError) -> int:
    if isinstance(error, NotFoundError):
        return 404
    if isinstance(error, ConflictError):
        return 409
    return 400 if isinstance(error, InvalidInputError) else 500


def _job_id(request: Request) -> str:
    return check_job_id(str(request.path_params["job_id"]))


def _last_id(request: Request) -> str:
    """Return what the page has seen: its browser says so when it reconnects, its script at other times."""
    return request.headers.get("last-event-id") or request.query_params.get("after", "")


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MAX_BODY:
            raise InvalidInputError(f"the body has more than {_MAX_BODY} bytes")
    return body


def _decoded(line: bytes) -> Mapping[str, object]:
    try:
        value = json.loads(line)
    except ValueError:
        return {"kind": "damaged"}
    return value if isinstance(value, dict) else {"kind": "damaged"}


def _message(kind: str, body: object, event_id: str) -> bytes:
    data = json.dumps(body, separators=(",", ":"))
    return f"id: {event_id}\nevent: {kind}\ndata: {data}\n\n".encode()
