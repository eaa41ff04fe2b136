"""Every request passes here: whose name was called, who asks, and what a browser may do with the answer."""

import asyncio
from urllib.parse import quote, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobwire.core.clock import Clock
from jobwire.dashboard.auth import SESSION_SECONDS, Access, Credentials, Gate, local_path
from jobwire.dashboard.login_throttle import LONGEST_SECONDS, LoginThrottle, peer_of

# No inline script or style, nothing from elsewhere, no HTML from strings (trusted types).
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
_LOGIN = "/login"
# What the login page itself consists of: the package's files, which hold nothing of this home.
_OPEN = frozenset({_LOGIN, "/healthz"})
_OPEN_FOLDER = "/assets/"
_POLICY_VIOLATION = 1008  # RFC 6455, section 7.4.1


class AccessMiddleware:
    """ASGI middleware. Written on the bare protocol: wrappers that read responses break streams."""

    def __init__(self, app: ASGIApp, *, gate: Gate, throttle: LoginThrottle, clock: Clock) -> None:
        self._app = app
        self._gate = gate
        self._throttle = throttle
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on with our headers added to the answer."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            # There is no WebSocket here, and none may pass by what follows.
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                # no-referrer would make browsers send "Origin: null" with the form (Fetch, section 3.2).
                if scope["path"] == _LOGIN:
                    headers["referrer-policy"] = "same-origin"
                headers.setdefault("cache-control", "no-store")
            await send(message)

        request = Request(scope)
        refusal = self._foreign(request) or await self._unknown(request)
        await (refusal or self._app)(scope, receive, send_guarded)

    def _foreign(self, request: Request) -> Response | None:
        """Refuse what another site makes a browser send."""
        if not self._gate.host_allowed(_host(request)):
            return PlainTextResponse("this server is not known by that name: see --allowed-host\n", 421)
        return None if self._from_here(request) else _refused("the request does not come from this page")

    def _from_here(self, request: Request) -> bool:
        origin = request.headers.get("origin")
        if origin is not None:
            return self._gate.origin_allowed(origin, _host(request))
        if not _reads(request):
            # Programs send no Origin; no page elsewhere can send Authorization unasked (CORS).
            return "authorization" in request.headers
        # A page on another port of this host is the same site, so its requests carry our cookie (RFC 6265bis,
        # section 8.5). It may link here, and read nothing (Fetch Metadata, section 2).
        site = request.headers.get("sec-fetch-site", "none")
        return site in {"none", "same-origin"} or request.headers.get("sec-fetch-dest") == "document"

    async def _unknown(self, request: Request) -> Response | None:
        """Refuse whoever does not bring the token; turn one in the address into a cookie."""
        path = request.scope["path"]
        credentials = Credentials(
            authorization=request.headers.get("authorization", ""),
            address=_address_token(request),
            cookie=request.cookies.get(self._gate.cookie_name, ""),
        )
        access = self._gate.judge(credentials, self._clock.now())
        if access is Access.ADMITTED:
            if path == _LOGIN and _reads(request):
                return RedirectResponse(local_path(request.query_params.get("next", "")), 303)
            return self._cleaned(request) if credentials.address else None
        if path in _OPEN or path.startswith(_OPEN_FOLDER):
            return None
        if access is Access.WRONG and not await answer_slowly(self._throttle, request, self._clock):
            return too_many()
        answer = _login_first(request)
        if access is Access.WRONG:
            forget_cookie(answer, self._gate)
        return answer

    def _cleaned(self, request: Request) -> Response:
        """Answer with the same address without the token, which would stay in histories and on screens."""
        answer = RedirectResponse(_address(request), 303)
        if self._gate.secret_fits(_address_token(request)):
            give_cookie(answer, self._gate, self._clock.now())
        return answer


def _host(request: Request) -> str:
    """Return the name that was called."""
    return request.headers.get("host", "")


def _reads(request: Request) -> bool:
    """Tell whether the request changes nothing."""
    return request.method in {"GET", "HEAD"}


def _address_token(request: Request) -> str:
    """Return the token in the address of a page that is opened with it."""
    return request.query_params.get("token", "") if _reads(request) else ""


def _address(request: Request) -> str:
    """Return path and query as they stand in the address, without the token; "/" where they are not ours."""
    path = (request.scope.get("raw_path") or quote(request.scope["path"]).encode()).decode("latin-1")
    query = urlencode([pair for pair in request.query_params.multi_items() if pair[0] != "token"])
    return local_path(f"{path}?{query}" if query else path)


async def answer_slowly(throttle: LoginThrottle, request: Request, clock: Clock) -> bool:
    """Return True when a wrong token may be answered, or False where too many wait for that."""
    peer = peer_of(request.client.host) if request.client else ""
    wait = throttle.begin(peer, clock.monotonic())
    if wait is None:
        return False
    try:
        await asyncio.sleep(wait)
    finally:
        throttle.end()
    return True


def too_many() -> Response:
    """Return the answer for a wrong token among too many."""
    return JSONResponse(
        {"error": "wrong token, as many before", "hint": "a right one is let in at any time"},
        429,
        headers={"retry-after": str(int(LONGEST_SECONDS)), "connection": "close"},
    )


def give_cookie(answer: Response, gate: Gate, now: float) -> None:
    """Let the browser in from now on."""
    answer.set_cookie(
        gate.cookie_name,
        gate.new_cookie(now),
        max_age=SESSION_SECONDS,
        secure=gate.secure,
        httponly=True,
        samesite="strict",
    )


def forget_cookie(answer: Response, gate: Gate) -> None:
    """Have the browser forget a cookie."""
    answer.delete_cookie(gate.cookie_name, secure=gate.secure, httponly=True, samesite="strict")


def _login_first(request: Request) -> Response:
    if _reads(request) and "text/html" in request.headers.get("accept", ""):
        wrong = [("wrong", "")] if _address_token(request) else []
        return RedirectResponse(f"{_LOGIN}?{urlencode([('next', _address(request)), *wrong], safe='/')}", 303)
    return JSONResponse(
        {"error": "a token is needed", "hint": "Authorization: Bearer TOKEN, or log in on the page"},
        401,
        headers={"www-authenticate": "Bearer"},
    )


def _refused(why: str) -> Response:
    return JSONResponse({"error": why}, 403)
