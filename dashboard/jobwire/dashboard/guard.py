"""Every request passes here: whose name was called, who asks, and what a browser may do with the answer."""

from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobwire.core.clock import Clock
from jobwire.dashboard.auth import Gate

# No inline script or style, nothing from elsewhere, no HTML from strings (trusted types).
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    # no-referrer would make browsers send "Origin: null" with the login form (Fetch, section 3.1).
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
# What the login page itself consists of.
_OPEN = frozenset({"/login", "/assets/app.css", "/assets/icon.svg", "/healthz"})


class Guard:
    """ASGI middleware. Written on the bare protocol: wrappers that read responses break streams."""

    def __init__(self, app: ASGIApp, *, gate: Gate, clock: Clock) -> None:
        self._app = app
        self._gate = gate
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on with our headers added to the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._gate.host_allowed(host):
            return PlainTextResponse("this server is not known by that name: see --allowed-host\n", 421)
        if scope["method"] not in {"GET", "HEAD"} and not self._from_here(headers, host):
            return JSONResponse({"error": "the request does not come from this page"}, 403)
        if scope["path"] in _OPEN or self._admitted(headers):
            return None
        if "text/html" in headers.get("accept", ""):
            return RedirectResponse(f"/login?next={quote(scope['path'])}", 303)
        return JSONResponse(
            {"error": "a token is needed", "hint": "Authorization: Bearer TOKEN, or log in on the page"},
            401,
            headers={"www-authenticate": "Bearer"},
        )

    def _from_here(self, headers: Headers, host: str) -> bool:
        # Programs send no Origin; no page elsewhere can send Authorization without being asked first (CORS).
        if self._gate.asks and "origin" not in headers and "authorization" in headers:
            return True
        return self._gate.origin_allowed(headers.get("origin"), host)

    def _admitted(self, headers: Headers) -> bool:
        try:
            jar = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            jar = SimpleCookie()
        cookies = {name: morsel.value for name, morsel in jar.items()}
        return self._gate.admits(headers.get("authorization", ""), cookies, self._clock.now())
