"""What comes in and goes out over HTTP: bodies with bounds, answers that any text fits into."""

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jobwire.core.canonical import JsonShapeError
from jobwire.core.errors import ConflictError, InvalidInputError, JobwireError, NotFoundError
from jobwire.core.strict_json import decode_object
from jobwire.dashboard.foreign import whole_number

MAX_BODY = 4096
# An answer of its full length, each character as an escape of JSON.
MAX_ANSWER_BODY = 64 * 1024
_BODY_SECONDS = 10.0

Handler = Callable[[Request], Awaitable[Response]]


class BodyTooLargeError(InvalidInputError):
    """A request's body is larger than any of ours."""


_STATUSES: tuple[tuple[type[JobwireError], int], ...] = (
    (NotFoundError, 404),
    (ConflictError, 409),
    (BodyTooLargeError, 413),
    (InvalidInputError, 400),
)


async def read_body(request: Request, most: int = MAX_BODY) -> bytes:
    """Return the body of up to `most` bytes.

    Raises BodyTooLargeError before it is read, InvalidInputError where it never ends.
    """
    if (whole_number(request.headers.get("content-length", "0")) or 0) > most:
        raise BodyTooLargeError(f"the body has more than {most} bytes")
    body = b""
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise BodyTooLargeError(f"the body has more than {most} bytes")
    except TimeoutError as error:
        raise InvalidInputError(f"the body did not come within {_BODY_SECONDS:.0f} s") from error
    return body


async def read_object(request: Request, most: int = MAX_BODY) -> dict[str, object]:
    """Return the JSON object in a body of up to `most` bytes, an empty one where there is none.

    Raises InvalidInputError.
    """
    try:
        return decode_object(await read_body(request, most) or b"{}")
    except JsonShapeError as error:
        raise InvalidInputError(f"the body: {error}", hint='send a JSON object: {"reason": "why"}') from error


def json_response(body: object, status: int = 200, *, headers: Mapping[str, str] | None = None) -> Response:
    """Return `body` as JSON in ASCII: a record on disk may hold texts that UTF-8 cannot carry."""
    try:
        text = json.dumps(body, separators=(",", ":"), allow_nan=False)
    except ValueError:
        # Other programs may write infinities into a table; no browser reads them (RFC 8259, section 6).
        text = json.dumps(_finite(body), separators=(",", ":"))
    return Response(text, status, headers=headers, media_type="application/json")


def _finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def event_message(kind: str, body: object, event_id: str) -> bytes:
    """Return one server-sent event."""
    data = json.dumps(body, separators=(",", ":"))
    return f"id: {event_id}\nevent: {kind}\ndata: {data}\n\n".encode()


def action_route(path: str, handler: Handler, *, allowed: bool) -> Route:
    """Return the route of an action: where none were allowed at the start, it answers that."""
    return Route(path, handler if allowed else _read_only, methods=["POST"])


async def _read_only(request: Request) -> Response:  # noqa: ARG001 - a handler's form
    return json_response({"error": "this page is read-only", "hint": "start it with --allow-actions"}, 403)


async def refusal(request: Request, error: Exception) -> Response:  # noqa: ARG001 - a handler's form
    """Answer for an error of ours, with its cause and remedy."""
    if not isinstance(error, JobwireError):
        raise error
    # The rest of a body that is too large is not read: nothing can follow it.
    headers = {"connection": "close"} if isinstance(error, BodyTooLargeError) else None
    return json_response({"error": error.message, "hint": error.hint}, _status(error), headers=headers)


async def no_route(request: Request, error: Exception) -> Response:
    """Answer for an address or a method that is not there."""
    status = error.status_code if isinstance(error, HTTPException) else 404
    what = f"{request.method} is not for this address" if status == 405 else "there is nothing here"  # noqa: PLR2004
    headers = error.headers if isinstance(error, HTTPException) else None
    return json_response({"error": what, "hint": "the page is at /"}, status, headers=headers)


def _status(error: JobwireError) -> int:
    # 503: the disk, a lock or a record cannot be used at the moment.
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 503)
