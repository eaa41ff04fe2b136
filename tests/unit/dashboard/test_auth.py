"""Who may look: binds, secrets, cookies, names and origins."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.errors import ConfigError
from jobwire.core.settings import Secret
from jobwire.dashboard.auth import (
    SESSION_SECONDS,
    Access,
    Bind,
    Credentials,
    Gate,
    check_bind,
    local_path,
    page_token,
    read_secret,
)

NOW = 1_767_225_600.0
SECRET = "correct horse battery"
LOCAL = Bind("127.0.0.1", 8470)
OUTSIDE = Bind("0.0.0.0", 8470, certfile="c.pem", keyfile="k.pem", token_file="t")  # noqa: S104 - what is tested


def secret_file(folder: Path, text: str = SECRET, mode: int = 0o600) -> Path:
    """Write a secret."""
    path = folder / "token"
    path.write_text(text + "\n")
    path.chmod(mode)
    return path


def gate(bind: Bind = OUTSIDE, secret: str = SECRET) -> Gate:
    """Return a gate with a secret."""
    return Gate(bind=bind, secret=Secret(secret))


def test_loopback_has_a_token_of_its_own() -> None:
    """Other users reach loopback: without a token file each start has a new token of 256 bits."""
    check_bind(LOCAL)
    first, second = page_token(LOCAL), page_token(LOCAL)
    assert LOCAL.own_token
    assert len(first.reveal()) >= 43
    assert first.reveal() != second.reveal()


def test_token_of_a_file_is_not_ours_alone(tmp_path: Path) -> None:
    """A token that was given is not shown in the address: others may have been told it."""
    bind = LOCAL._replace(token_file=str(secret_file(tmp_path)))
    assert (page_token(bind).reveal(), bind.own_token) == (SECRET, False)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.org"])  # noqa: S104 - what is tested
def test_other_address_needs_tls_and_a_secret(host: str, tmp_path: Path) -> None:
    """Anything that others can reach is refused without TLS, and without a secret."""
    token = str(secret_file(tmp_path))
    with pytest.raises(ConfigError, match="TLS only"):
        check_bind(Bind(host, 0, token_file=token))
    with pytest.raises(ConfigError, match="token or password"):
        check_bind(Bind(host, 0, certfile="c", keyfile="k"))
    check_bind(Bind(host, 0, certfile="c", keyfile="k", token_file=token))


def test_certificate_without_key_is_refused() -> None:
    """Half of a TLS setting is an error, not plaintext."""
    with pytest.raises(ConfigError, match="both"):
        check_bind(LOCAL._replace(certfile="c.pem"))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_secret_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    """The secret's file must be its owner's alone."""
    with pytest.raises(ConfigError, match="open to other users"):
        read_secret(secret_file(tmp_path, mode=mode))


def test_short_secret_is_refused(tmp_path: Path) -> None:
    """A secret that can be guessed is refused; one line without spaces around it counts."""
    with pytest.raises(ConfigError, match="fewer than 12"):
        read_secret(secret_file(tmp_path, "short"))
    assert read_secret(secret_file(tmp_path, "  a long enough one ")).reveal() == "a long enough one"


def test_missing_secret_is_a_clear_error(tmp_path: Path) -> None:
    """A secret's file that is not there is named."""
    with pytest.raises(ConfigError, match="nothing-here"):
        read_secret(tmp_path / "nothing-here")


@pytest.mark.parametrize(
    "credentials",
    [
        Credentials(authorization=f"Bearer {SECRET}"), Credentials(authorization=f"bearer {SECRET}"),
        Credentials(address=SECRET),
        Credentials(cookie=gate().new_cookie(NOW)),
        Credentials(authorization="Bearer wrong", address="wrong", cookie=gate().new_cookie(NOW)),
    ],
)  # fmt: skip
def test_each_way_in(credentials: Credentials) -> None:
    """The token is taken as Bearer, from the address or for a cookie, whatever else comes along."""
    assert gate().judge(credentials, NOW) is Access.ADMITTED


@pytest.mark.parametrize(
    "credentials",
    [
        Credentials(authorization="Bearer"), Credentials(authorization="Bearer correct"),
        Credentials(authorization=f"Basic {SECRET}"),
        Credentials(address="wrong"), Credentials(cookie="wrong"), Credentials(cookie="9" * 5000),
        Credentials(cookie="é.é.é"),
        Credentials(cookie=f"{'9' * 12}.x.{'0' * 64}"),
    ],
)  # fmt: skip
def test_wrong_on_any_way_is_a_guess(credentials: Credentials) -> None:
    """A wrong token counts as one, however it is brought; bringing none is none."""
    assert gate().judge(credentials, NOW) is Access.WRONG
    assert gate().judge(Credentials(), NOW) is Access.ASKED


def test_cookie_admits_until_it_ends() -> None:
    """A cookie admits for a week, also after a restart of the server; one that ended is no guess."""
    cookie = Credentials(cookie=gate().new_cookie(NOW))
    assert gate().judge(cookie, NOW + SESSION_SECONDS - 1) is Access.ADMITTED
    assert gate().judge(cookie, NOW + SESSION_SECONDS) is Access.ASKED


def test_another_secret_ends_all_cookies() -> None:
    """Changing the secret logs everybody out."""
    cookie = Credentials(cookie=gate().new_cookie(NOW))
    assert gate(secret="another long secret").judge(cookie, NOW) is Access.WRONG


def test_two_pages_of_a_host_have_two_cookies() -> None:
    """Browsers send a cookie to every port of a host: a login to one page leaves the other's session."""
    assert gate(LOCAL).cookie_name != gate(LOCAL._replace(port=8471)).cookie_name


@given(st.text(max_size=80))
def test_forged_cookie_is_refused(value: str) -> None:
    """No text but one of ours is a cookie, and none is an error."""
    assert gate().judge(Credentials(cookie=value), NOW) is not Access.ADMITTED


def test_altered_cookie_is_refused() -> None:
    """Its end cannot be moved."""
    expiry, nonce, signature = gate().new_cookie(NOW).split(".")
    later = f"{int(expiry) + 1}.{nonce}.{signature}"
    assert gate().judge(Credentials(cookie=later), NOW) is Access.WRONG


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:8470", True), ("localhost:8470", True), ("LOCALHOST", True), ("[::1]:8470", True),
        ("evil.example:8470", False), ("127.0.0.1.evil.example", False), ("", False), ("proxy.lan", True),
    ],
)  # fmt: skip
def test_only_known_names_are_answered(host: str, allowed: bool) -> None:
    """A foreign name that leads to loopback (DNS rebinding) gets no answer."""
    assert gate(LOCAL._replace(allowed_hosts=("proxy.lan",))).host_allowed(host) is allowed


def test_secret_on_loopback_still_checks_the_name() -> None:
    """A secret does not open loopback to foreign names."""
    assert not gate(LOCAL).host_allowed("evil.example")
    assert gate(OUTSIDE).host_allowed("dash.example.org")


def test_actions_come_from_our_own_page() -> None:
    """Scheme, name and port of the origin must be ours; a missing or null one is refused."""
    ours = gate(LOCAL)
    assert ours.origin_allowed("http://127.0.0.1:8470", "127.0.0.1:8470")
    for origin in ("", "null", "ftp://127.0.0.1:8470", "http://127.0.0.1:9", "http://evil.example"):
        assert not ours.origin_allowed(origin, "127.0.0.1:8470")
    assert not gate(OUTSIDE).origin_allowed("http://dash.example.org", "dash.example.org")


def test_proxy_may_speak_tls_in_front() -> None:
    """Behind a proxy that ends TLS the page's origin is https, though the server speaks http."""
    assert gate(LOCAL).origin_allowed("https://proxy.lan", "proxy.lan")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/", "/"), ("/?state=failed&q=a%20b", "/?state=failed&q=a%20b"), ("/jobs/0a1b2c3d",) * 2,
        ("//evil.example", "/"), ("/\\evil.example", "/"), ("https://evil.example", "/"), ("", "/"),
        ("/\t/evil.example", "/"), ("/a b", "/"), ("/é", "/"), ("/login?next=/", "/"), ("/logout", "/"),
        ("/" + "x" * 3000, "/"), ("javascript:alert(1)", "/"), ("/x\r\nset-cookie: a=b", "/"),
    ],
)  # fmt: skip
def test_after_the_login_only_this_server_is_gone_to(text: str, path: str) -> None:
    """What the address of the login form asks for leads to a page of this server or to the fleet."""
    assert local_path(text) == path


def test_secret_does_not_print_itself() -> None:
    """Neither the gate nor its secret shows it in a traceback."""
    assert "horse" not in repr(Secret("correct horse battery"))
    assert "horse" not in str(vars(gate()))
