"""Who may look, on loopback and elsewhere: the token on every way in, and what other sites may not do."""

import asyncio
import http.client
import json
import ssl
import stat
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobwire.certs.authority import CertificateAuthority
from jobwire.testing.dashboard_process import DashboardProcess
from jobwire.testing.fleet_writer import FleetWriter

from .conftest import Answer, ask

EVERY_ROUTE = (
    "/", "/jobs/0a1b2c3d", "/charts", "/feed", "/api/stream", "/api/summary", "/api/jobs/0a1b2c3d",
    "/api/metrics", "/api/jobs/0a1b2c3d/stream", "/metrics", "/assets/index.html", "/nowhere",
    "/openapi.json",
)  # fmt: skip


@pytest.fixture
def server(writer: FleetWriter) -> Iterator[DashboardProcess]:
    """Give a server on loopback with a token of its own; it never writes its token to stderr."""
    writer.start("a job")
    with DashboardProcess(writer.home, "--allow-actions") as made:
        yield made
        assert made.token not in made.errors()


def log_in(server: DashboardProcess, body: str, path: str = "/login") -> Answer:
    """Send the login form as a browser does."""
    ours = f"http://127.0.0.1:{server.port}"
    return ask(server, path, method="POST", body=body, origin=ours)


def test_loopback_shows_nothing_without_the_token(server: DashboardProcess) -> None:
    """Another user of this host reaches the port and learns nothing, not even which addresses there are."""
    for path in EVERY_ROUTE:
        status, _, body = ask(server, path)
        assert status == (404 if path.startswith("/assets/") else 401), path
        assert str(server.home) not in body


def test_nobody_cancels_without_the_token(server: DashboardProcess, writer: FleetWriter) -> None:
    """With --allow-actions, the page's own origin is not enough."""
    job = writer.start("mine")
    ours = f"http://127.0.0.1:{server.port}"
    assert ask(server, f"/api/jobs/{job}/cancel", method="POST", origin=ours)[0] == 401
    wrong = ask(server, f"/api/jobs/{job}/cancel", method="POST", authorization="Bearer wrong")
    assert wrong[0] == 401
    assert writer.store.get(job).status == "running"


def test_printed_address_opens_the_page_and_loses_the_token(server: DashboardProcess) -> None:
    """The token leaves the address by a redirect that gives an HttpOnly, SameSite=Strict cookie."""
    path = f"/jobs/0a1b2c3d?q=a%20b&token={server.token}"
    status, headers, _ = ask(server, path, accept="text/html")
    assert (status, headers["location"]) == (303, "/jobs/0a1b2c3d?q=a+b")
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    parts = {part.strip() for part in headers["set-cookie"].split(";")}
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= parts
    assert "Secure" not in parts
    cookie = headers["set-cookie"].split(";")[0]
    assert server.token not in cookie
    assert ask(server, "/", cookie=cookie)[0] == 200
    assert ask(server, "/api/stream", cookie=cookie)[0] == 200
    assert ask(server, "/metrics", authorization=server.authorization)[0] == 200


def test_address_with_a_token_leads_nowhere_else(server: DashboardProcess) -> None:
    """The redirect that takes the token away stays on this server."""
    for path in ("//evil.example/", "/\\evil.example", "//evil.example/%2e%2e"):
        status, headers, _ = ask(server, f"{path}?token={server.token}")
        assert (status, headers["location"]) == (303, "/")


def test_token_is_kept_for_its_owner_and_shown_again(server: DashboardProcess) -> None:
    """While the page runs its address stands in a private file, and goes with it."""
    path = server.home / "dashboard" / f"{server.port}.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert json.loads(path.read_text())["token"] == server.token
    server.stop()
    assert not path.exists()


def test_each_start_has_another_token(server: DashboardProcess) -> None:
    """A token or cookie that somebody caught at the port while no page ran opens no later one."""
    before = server.authorization
    server.stop()
    server.start()
    assert ask(server, "/api/summary", authorization=before)[0] == 401
    assert ask(server, "/api/summary", authorization=server.authorization)[0] == 200


def test_login_leads_back_to_where_it_was_asked_for(server: DashboardProcess) -> None:
    """What was wanted is kept through a wrong and a right login; only paths of this server count."""
    status, headers, _ = ask(server, "/?state=failed&q=x", accept="text/html")
    assert (status, headers["location"]) == (303, "/login?next=/%3Fstate%3Dfailed%26q%3Dx")
    form = ask(server, headers["location"])
    assert 'action="/login?next=/%3Fstate%3Dfailed%26q%3Dx"' in form[2]
    assert form[1]["referrer-policy"] == "same-origin"
    wrong = log_in(server, "secret=wrong", headers["location"])
    assert (wrong[0], wrong[1]["location"]) == (303, f"{headers['location']}&wrong=")
    assert "That was not it." in ask(server, wrong[1]["location"])[2]
    right = log_in(server, f"secret={server.token}", headers["location"])
    assert (right[0], right[1]["location"]) == (303, "/?state=failed&q=x")
    for foreign in ("//evil.example", "https://evil.example", "/%5Cevil.example", "/login"):
        assert log_in(server, f"secret={server.token}", f"/login?next={foreign}")[1]["location"] == "/"
    assert "evil" not in ask(server, "/login?next=//evil.example/%22%3E%3Cscript%3E")[2]


def test_whoever_is_logged_in_sees_no_form(server: DashboardProcess) -> None:
    """The login form's address leads on for whoever has the token."""
    known = {"authorization": server.authorization}
    assert ask(server, "/login?next=/charts", **known)[1]["location"] == "/charts"
    assert ask(server, "/login?next=//evil.example", **known)[1]["location"] == "/"


def test_stale_cookie_is_forgotten(server: DashboardProcess) -> None:
    """A cookie of an earlier start is taken back, so that the next requests do not bring it again."""
    status, headers, _ = ask(server, "/", cookie=f"jobwire-{server.port}=1.x.y", accept="text/html")
    assert (status, headers["location"]) == (303, "/login?next=/")
    assert f'jobwire-{server.port}=""' in headers["set-cookie"]


async def _flood(server: DashboardProcess, request: str, until: float) -> int:
    """Send a wrong request over and over on eight connections; return how many were answered."""

    async def one() -> int:
        answered = 0
        while time.monotonic() < until:
            reader, out = await asyncio.open_connection("127.0.0.1", server.port)
            out.write(request.encode())
            await reader.readline()
            answered += 1
            out.close()
        return answered

    return sum(await asyncio.gather(*(one() for _ in range(8))))


WRONG = {
    "bearer": "GET /api/summary HTTP/1.1\r\n{host}Authorization: Bearer wrong\r\n\r\n",
    "cookie": "GET /api/summary HTTP/1.1\r\n{host}Cookie: jobwire-{port}=9.a.b\r\n\r\n",
    "address": "GET /?token=wrong HTTP/1.1\r\n{host}Accept: text/html\r\n\r\n",
    "form": "POST /login HTTP/1.1\r\n{host}Origin: http://127.0.0.1:{port}\r\n"
    "Content-Length: 8\r\n\r\nsecret=x",
}


@pytest.mark.parametrize("way", WRONG)
def test_wrong_tokens_wait_and_the_right_one_does_not(server: DashboardProcess, way: str) -> None:
    """On every way in, wrong ones are answered a few times a second, and hold no right one of the address."""
    host = f"Host: 127.0.0.1:{server.port}\r\n"
    request = WRONG[way].format(host=host, port=server.port)

    async def both() -> tuple[int, list[float]]:
        flood = asyncio.create_task(_flood(server, request, time.monotonic() + 2.0))
        taken = []
        while not flood.done():
            begun = time.monotonic()
            assert (await asyncio.to_thread(log_in, server, f"secret={server.token}"))[0] == 303
            right = await asyncio.to_thread(ask, server, "/api/summary", authorization=server.authorization)
            assert right[0] == 200
            taken.append(time.monotonic() - begun)
        return await flood, taken

    answered, taken = asyncio.run(both())
    # Eight connections: two answers a second in turn, then each connection every four seconds.
    assert answered <= 24
    assert statistics.median(taken) < 0.5


def test_too_many_wrong_tokens_at_a_time_are_refused_at_once(server: DashboardProcess) -> None:
    """300 at a time hold 256 connections; a right one is let in beside them."""
    request = f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer x\r\n\r\n"

    async def crowd() -> list[bytes]:
        links = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(300)]
        for _, out in links:
            out.write(request.encode())
        begun = time.monotonic()
        right = await asyncio.to_thread(ask, server, "/api/summary", authorization=server.authorization)
        assert (right[0], time.monotonic() - begun < 2.0) == (200, True)
        lines = [await reader.readline() for reader, _ in links]
        for _, out in links:
            out.close()
        return lines

    lines = asyncio.run(crowd())
    assert sum(b" 429 " in line for line in lines) == 300 - 256
    assert sum(b" 401 " in line for line in lines) == 256


FOREIGN = [
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "script"},
    {"sec_fetch_site": "same-site", "sec_fetch_mode": "cors", "sec_fetch_dest": "empty"},
    {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe"},
]


def test_other_sites_read_nothing_with_our_cookie(server: DashboardProcess) -> None:
    """A page elsewhere, or on another port of this host, gets no answer for a browser that is logged in."""
    cookie = log_in(server, f"secret={server.token}")[1]["set-cookie"].split(";")[0]
    for headers in FOREIGN:
        for path in ("/api/summary", "/api/stream", "/metrics", "/"):
            assert ask(server, path, cookie=cookie, **headers)[0] == 403, (path, headers)
        for path in ("/logout", "/login"):
            assert ask(server, path, method="POST", cookie=cookie, **headers)[0] == 403, (path, headers)


def test_link_from_elsewhere_leads_here(server: DashboardProcess) -> None:
    """A link on another site opens the page or its login form; a browser's own requests pass."""
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert ask(server, "/", accept="text/html", **link)[0] == 303
    cookie = log_in(server, f"secret={server.token}")[1]["set-cookie"].split(";")[0]
    assert ask(server, "/", cookie=cookie, **link)[0] == 200
    for site in ("same-origin", "none"):
        assert ask(server, "/api/summary", cookie=cookie, sec_fetch_site=site)[0] == 200


def test_action_with_a_cookie_needs_our_origin(server: DashboardProcess, writer: FleetWriter) -> None:
    """A POST that says not where it comes from is done for a program with the token, not for a browser."""
    job = writer.start("one")
    cookie = log_in(server, f"secret={server.token}")[1]["set-cookie"].split(";")[0]
    assert ask(server, f"/api/jobs/{job}/cancel", method="POST", cookie=cookie)[0] == 403
    assert writer.store.get(job).status == "running"
    program = ask(server, f"/api/jobs/{job}/cancel", method="POST", authorization=server.authorization)
    assert program[0] == 200


def test_websocket_is_not_spoken(server: DashboardProcess) -> None:
    """No WebSocket passes by the checks: an upgrade is answered as any request without a token."""
    upgrade = {
        "connection": "Upgrade", "upgrade": "websocket", "sec_websocket_version": "13",
        "sec_websocket_key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }  # fmt: skip
    assert ask(server, "/api/stream", **upgrade)[0] == 401


@pytest.fixture
def secured(writer: FleetWriter, tmp_path: Path) -> Iterator[DashboardProcess]:
    """Give a server on all addresses, with TLS and a password."""
    authority = CertificateAuthority(tmp_path / "certs")
    authority.init()
    page = authority.issue_server("page", ["localhost", "127.0.0.1"])
    token = tmp_path / "token"
    token.write_text("correct horse battery\n")
    token.chmod(0o600)
    files = (
        "--certfile",
        str(page.certfile),
        "--keyfile",
        str(page.keyfile),
    )
    with DashboardProcess(writer.home, "--host", "0.0.0.0", *files, "--token-file", str(token)) as made:  # noqa: S104 - what is tested
        yield made


def ask_tls(
    server: DashboardProcess,
    tmp_path: Path,
    path: str,
    *,
    method: str = "GET",
    body: str = "",
    **headers: str,
) -> Answer:
    """Ask over TLS, trusting our own authority."""
    trust = ssl.create_default_context(cafile=str(tmp_path / "certs" / "ca.pem"))
    link = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=60, context=trust)
    try:
        link.request(
            method, path, body=body or None, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )
        answer = link.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode()
    finally:
        link.close()


def test_outside_loopback_everything_asks_for_the_secret(secured: DashboardProcess, tmp_path: Path) -> None:
    """Without secret there is the login form and nothing else; with it, by header or cookie, everything."""
    for path in ("/api/stream", "/api/summary", "/metrics", "/api/jobs/0a1b2c3d", "/"):
        assert ask_tls(secured, tmp_path, path)[0] == 401, path
    status, headers, _ = ask_tls(secured, tmp_path, "/jobs/0a1b2c3d", accept="text/html")
    assert (status, headers["location"]) == (303, "/login?next=/jobs/0a1b2c3d")
    assert ask_tls(secured, tmp_path, "/login", accept="text/html")[0] == 200
    assert ask_tls(secured, tmp_path, "/metrics", authorization="Bearer correct horse battery")[0] == 200
    assert ask_tls(secured, tmp_path, "/metrics", authorization="Bearer wrong")[0] == 401


def test_login_gives_a_cookie_that_scripts_cannot_read(secured: DashboardProcess, tmp_path: Path) -> None:
    """The right password answers with an HttpOnly, Secure, SameSite=Strict cookie; a wrong one does not."""
    ours = {
        "origin": f"https://127.0.0.1:{secured.port}",
        "content_type": "application/x-www-form-urlencoded",
    }
    status, headers, _ = ask_tls(secured, tmp_path, "/login", method="POST", body="secret=wrong", **ours)
    assert (status, headers["location"], "set-cookie" in headers) == (303, "/login?next=/&wrong=", False)
    body = "secret=correct+horse+battery"
    assert (
        ask_tls(secured, tmp_path, "/login", method="POST", body=body, origin="https://evil.example")[0]
        == 403
    )
    status, headers, _ = ask_tls(secured, tmp_path, "/login", method="POST", body=body, **ours)
    cookie = headers["set-cookie"]
    assert status == 303
    assert cookie.startswith(f"__Host-jobwire-{secured.port}=")
    assert {"HttpOnly", "Secure", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert ask_tls(secured, tmp_path, "/api/summary", cookie=cookie.split(";")[0])[0] == 200
    assert "correct horse" not in ask_tls(secured, tmp_path, "/", cookie=cookie.split(";")[0])[2]


def test_old_tls_is_refused(secured: DashboardProcess, tmp_path: Path) -> None:
    """TLS 1.2 and older get no connection."""
    trust = ssl.create_default_context(cafile=str(tmp_path / "certs" / "ca.pem"))
    trust.maximum_version = ssl.TLSVersion.TLSv1_2
    link = http.client.HTTPSConnection("127.0.0.1", secured.port, timeout=60, context=trust)
    with pytest.raises(ssl.SSLError):
        link.request("GET", "/healthz")
