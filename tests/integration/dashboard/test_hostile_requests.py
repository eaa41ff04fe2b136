"""Requests as no browser sends them, on every route: each gets a clear answer, none leaves a traceback.

`JOBWIRE_FAULTS=long` tries a thousand of each.
"""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jobwire.coordination.message import NewMessage
from jobwire.coordination.sending import send
from jobwire.coordination.store import CoordinationStore
from jobwire.dashboard.coordination.acting import PAGE_VERBS
from jobwire.testing.dashboard_process import DashboardProcess
from jobwire.testing.fleet_writer import FleetWriter
from jobwire.testing.waiting import wait_for

JOB = "{job}"
ROUTES = (
    "/", "/jobs/{job}", "/charts", "/assets/{name}", "/login", "/logout", "/api/stream", "/api/summary",
    "/api/jobs/{job}", "/api/jobs/{job}/stream", "/api/jobs/{job}/cancel", "/api/jobs/{job}/answer",
    "/api/metrics", "/metrics", "/healthz", "/conversations", "/api/store/stream", "/api/conversations",
    "/api/conversation", "/api/agents", "/api/search", "/api/message", "/api/locks", "/api/boards",
    "/api/board", "/api/tasks", "/api/sessions", *(f"/api/act/{verb}" for verb in PAGE_VERBS),
)  # fmt: skip
# 503: the fleet is not read yet. 431 and 400 are the HTTP parser's own.
KNOWN = {200, 303, 304, 400, 401, 403, 404, 405, 409, 413, 421, 429, 431, 503}
DIGITS = "9" * 5000
DEEP = "[" * 4000


class Hostile(NamedTuple):
    """One request, as it goes over the wire but for the headers that every request needs."""

    method: str
    route: str
    piece: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DashboardProcess, str]]:
    """Give a server that cancels, and a job of it; at the end it has written nothing to stderr."""
    writer = FleetWriter(tmp_path_factory.mktemp("hostile") / "home")
    job = writer.start("one")
    writer.say(job, "progress", "half", percent=50)
    store = CoordinationStore(str(writer.home))
    send(store, NewMessage("lead", ("builder",), summary="one"))
    store.close()
    with DashboardProcess(writer.home, "--allow-actions") as made:
        yield made, job
        errors = made.errors().splitlines()
    writer.close()
    # The HTTP parser's one line about what is no HTTP.
    assert [line for line in errors if "Invalid HTTP request received" not in line] == []


def exchange(server: DashboardProcess, head: bytes, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
    """Send bytes and return status, headers and body; of a stream, its beginning."""
    with socket.create_connection(("127.0.0.1", server.port), 20) as link:
        try:
            link.sendall(head + body)
        except (BrokenPipeError, ConnectionResetError):
            # Refused before all of it was read; the answer lies ready.
            assert body
        answer = b""
        while part := _received(link):
            answer += part
            if b"text/event-stream" in answer and b"\r\n\r\n" in answer:
                break
    top, _, rest = answer.partition(b"\r\n\r\n")
    first, *lines = top.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return int(first.split()[1]), headers, rest


def _received(link: socket.socket) -> bytes:
    try:
        return link.recv(65_536)
    except ConnectionResetError:
        return b""


def wire(server: DashboardProcess, request: Hostile, job: str) -> bytes:
    """Return the head of a request of somebody who has the token."""
    path = request.route.replace("{job}", request.piece or job).replace("{name}", request.piece or "app.js")
    target = f"{path}?{request.query}" if request.query else path
    given_names = {name.lower() for name, _ in request.headers}
    standard = {
        "host": f"127.0.0.1:{server.port}",
        "origin": f"http://127.0.0.1:{server.port}",
        "authorization": server.authorization,
        "content-length": str(len(request.body)),
        "connection": "close",
    }
    kept = [(name, value) for name, value in standard.items() if name not in given_names]
    lines = [f"{request.method} {target} HTTP/1.1", *(f"{n}: {v}" for n, v in (*kept, *request.headers))]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


# What is no character of a request line or a header is the HTTP parser's business, not ours.
_target = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="#"), max_size=40)
_value = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_categories=["Cc"]), max_size=60
)
_piece = st.one_of(
    st.just(""),
    _target.map(lambda text: text.replace("?", "")),
    st.sampled_from(["%00", "%ff", "..%2f..", DIGITS]),
)
_STORE = ("thread", "below", "q", "seq", "agent", "board")
_query = st.one_of(
    st.just(""),
    _target,
    st.tuples(
        st.sampled_from(
            [
                "after",
                "range",
                "next",
                "token",
                "wrong",
                "state",
                "thread",
                "below",
                "q",
                "seq",
                "agent",
                "board",
            ]
        ),
        st.one_of(
            _target, st.sampled_from([DIGITS, "-1", "1e9", "%ff", "%00", "²", "//evil", "x." + DIGITS])
        ),
    ).map(lambda pair: f"{pair[0]}={pair[1]}".encode().decode("latin-1")),
)
_headers = st.lists(
    st.tuples(
        st.sampled_from(
            ["Host", "Origin", "Cookie", "Authorization", "Accept", "Last-Event-ID", "If-None-Match",
             "Content-Type", "Sec-Fetch-Site", "X-Anything"]
        ),
        st.one_of(_value, st.sampled_from([DIGITS, "text/html", "jobwire=1.2.3", '"', ";;=;,", "Bearer"])),
    ),
    max_size=3,
    unique_by=lambda pair: pair[0],
).map(tuple)  # fmt: skip
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
_FIELDS = (("reason",), ("request", "text", "always"), *(tuple(verb.takes) for verb in PAGE_VERBS.values()))
_body = st.one_of(
    st.just(b""),
    st.binary(max_size=200),
    st.tuples(st.sampled_from(_FIELDS), _json).map(lambda pair: json.dumps(dict.fromkeys(*pair)).encode()),
    st.sampled_from([b"x" * 5000, b"secret=" + b"x" * 5000, DEEP.encode(), f'{{"reason": {DEEP}'.encode(),
                     b'{"reason": "\\ud800"}', b'{"reason": 1e999}', f'{{"reason": {DIGITS}}}'.encode(),
                     b"secret=%ff"]),
)  # fmt: skip
hostile = st.builds(
    Hostile,
    st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"]),
    st.sampled_from(ROUTES) | _target.map(lambda text: f"/{text.replace('?', '')}"),
    _piece,
    _query,
    _headers,
    _body,
)


def post(route: str, body: bytes) -> Hostile:
    """Return a plain POST."""
    return Hostile("POST", route, "", "", (), body)


def get(route: str, query: str = "", *headers: tuple[str, str], piece: str = "") -> Hostile:
    """Return a plain GET."""
    return Hostile("GET", route, piece, query, headers, b"")


@given(request=hostile)
@example(request=post("/login", b"secret=" + b"x" * 5000))
@example(request=post("/api/jobs/{job}/cancel", f'{{"reason": {DEEP}'.encode()))
@example(request=post("/api/jobs/{job}/cancel", DEEP.encode()))
@example(request=post("/api/jobs/{job}/cancel", b'{"reason": "\\ud800"}'))
@example(request=post("/api/jobs/{job}/cancel", f'{{"reason": {DIGITS}}}'.encode()))
@example(request=get("/api/jobs/{job}/stream", f"after={DIGITS}"))
@example(request=get("/api/jobs/{job}/stream", "", ("Last-Event-ID", DIGITS)))
@example(request=get("/api/stream", f"after=x.{DIGITS}"))
@example(request=get("/api/metrics", f"range={DIGITS}"))
@example(request=get("/api/jobs/{job}", piece="%ff%00"))
@example(request=get("/api/jobs/{job}", piece="0a1b2c3d/"))
@example(request=Hostile("HEAD", "/api/stream", "", "", (), b""))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.hypothesis
def test_every_request_gets_a_clear_answer(server: tuple[DashboardProcess, str], request: Hostile) -> None:
    """Whatever comes on whatever route: a documented status and a body that says what is wrong."""
    made, job = server
    status, headers, body = exchange(made, wire(made, request, job), request.body)
    assert status in KNOWN
    if status >= 400 and request.method != "HEAD":
        assert body
        if headers.get("content-type", "").startswith("application/json"):
            assert json.loads(body)["error"]
    assert b"Traceback" not in body


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000, 400),
        (b"GET /" + b"x" * 70_000, 400),
        (b"POST /login HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999\r\n\r\n", 413),
        (
            b"POST /login HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2000\r\n" + b"x" * 0x2000,
            413,
        ),
    ],
)
def test_too_much_is_refused_before_it_is_read(
    server: tuple[DashboardProcess, str], head: bytes, status: int
) -> None:
    """Heads of more than 16 KiB and bodies of more than 4 KiB are not kept, and end the connection."""
    made, _ = server
    ours = f"127.0.0.1:{made.port}".encode()
    head = head.replace(b"Host: h", b"Host: " + ours + b"\r\nOrigin: http://" + ours)
    assert exchange(made, head)[0] == status


def test_damaged_history_is_shown_as_far_as_it_goes(tmp_path: Path) -> None:
    """Lines that nest too deeply, or hold numbers that JSON has not, are no error of the server."""
    writer = FleetWriter(tmp_path / "home")
    job = writer.start("one")
    with Path(writer.store.audit(job).events_path).open("a") as file:
        deep = '{"a":' * 300 + "1" + "}" * 300
        file.write(
            f'{DEEP}\n{{"kind":"event","attempt":1e999}}\n{{"event":{{"data":{deep}}}}}\nnot json\n[]\n'
        )
    with DashboardProcess(writer.home) as server:
        with socket.create_connection(("127.0.0.1", server.port), 20) as link:
            link.sendall(wire(server, get("/api/jobs/{job}/stream"), job))
            seen = b""

            def lines() -> list[dict[str, object]]:
                nonlocal seen
                seen += link.recv(65_536)
                found = [line for line in seen.decode().splitlines() if line.startswith("data: [")]
                return (
                    json.loads(found[0].removeprefix("data: "), parse_constant=_no_constant) if found else []
                )

            shown = wait_for(lines)
        assert [line.get("kind") for line in shown[-5:]] == ["damaged", "event", None, "damaged", "damaged"]
        assert server.errors() == ""
    writer.close()


def _no_constant(name: str) -> None:
    raise ValueError(name)
