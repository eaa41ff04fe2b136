"""The way in for people: the login form, and the way out."""

import html
from urllib.parse import parse_qs, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from jobwire.core.clock import Clock
from jobwire.dashboard.auth import Gate, local_path
from jobwire.dashboard.login_throttle import LoginThrottle
from jobwire.dashboard.middleware import answer_slowly, forget_cookie, give_cookie, too_many
from jobwire.dashboard.responses import read_body

_WRONG = "That was not it."


class LoginRoutes:
    """Login and logout. `form` is the login page, with places for `{{notice}}` and `{{next}}`."""

    def __init__(self, *, gate: Gate, throttle: LoginThrottle, clock: Clock, form: str) -> None:
        self._gate = gate
        self._throttle = throttle
        self._clock = clock
        self._form = form

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/login", self.show, methods=["GET"]),
            Route("/login", self.login, methods=["POST"]),
            Route("/logout", self.logout, methods=["POST"]),
        ]

    async def show(self, request: Request) -> Response:
        """Answer with the login form; it keeps where the visitor wanted to go."""
        shown = {
            "notice": _WRONG if "wrong" in request.query_params else "",
            "next": urlencode({"next": _next(request)}, safe="/"),
        }
        text = self._form
        for name, value in shown.items():
            text = text.replace(f"{{{{{name}}}}}", html.escape(value))
        return HTMLResponse(text)

    async def login(self, request: Request) -> Response:
        """Take the token, answer with a cookie and the page that was wanted."""
        fields = parse_qs((await read_body(request)).decode("utf-8", "replace"))
        wanted = _next(request)
        if self._gate.secret_fits(fields.get("secret", [""])[0].strip()):
            answer = RedirectResponse(wanted, 303)
            give_cookie(answer, self._gate, self._clock.now())
            return answer
        if not await answer_slowly(self._throttle, request, self._clock):
            return too_many()
        query = urlencode([("next", wanted), ("wrong", "")], safe="/")
        return RedirectResponse(f"/login?{query}", 303)

    async def logout(self, request: Request) -> Response:  # noqa: ARG002 - a handler's form
        """Take the cookie back."""
        answer = RedirectResponse("/login", 303)
        forget_cookie(answer, self._gate)
        return answer


def _next(request: Request) -> str:
    return local_path(request.query_params.get("next", "/"))
