"""Who may look: binds, secrets, cookies, names and origins."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.errors import ConfigError
from jobwire.core.settings import Secret
from jobwire.dashboard.auth import SESSION_SECONDS, Bind, Gate, check_bind, read_secret

NOW = 1_767_225_600.0
LOCAL = Bind("127.0.0.1", 8470)
OUTSIDE = Bind("0.0.0.0", 8470, certfile="c.pem", keyfile="k.pem", token_file="t")  # noqa: S104 - what is tested


def secret_file(folder: Path, text: str = "correct horse battery", mode: int = 0o600) -> Path:
    """Write a secret."""
    path = folder / "token"
    path.write_text(text + "\n")
    path.chmod(mode)
    return path


def gate(bind: Bind = OUTSIDE) -> Gate:
    """Return a gate with a secret."""
    return Gate(bind=bind, secret=Secret("correct horse battery"))


def test_loopback_asks_for_nothing() -> None:
    """On loopback the page opens without a secret."""
    assert check_bind(LOCAL) is None
    assert Gate(bind=LOCAL, secret=None).admits("", {}, NOW)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.org"])  # noqa: S104 - what is tested
def test_other_address_needs_tls_and_a_secret(host: str, tmp_path: Path) -> None:
    """Anything that others can reach is refused without TLS, and without a secret."""
    token = str(secret_file(tmp_path))
    with pytest.raises(ConfigError, match="TLS only"):
        check_bind(Bind(host, 0, token_file=token))
    with pytest.raises(ConfigError, match="token or password"):
        check_bind(Bind(host, 0, certfile="c", keyfile="k"))
    assert check_bind(Bind(host, 0, certfile="c", keyfile="k", token_file=token)) is not None


def test_certificate_without_key_is_refused() -> None:
    """Half of a TLS setting is an error, not plaintext."""
    with pytest.raises(ConfigError, match="both"):
        check_bind(LOCAL._replace(certfile="c.pem"))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_secret_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    """The secret's file must be its owner's alone."""
    with pytest.raises(ConfigError, match="read by others"):
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


def test_bearer_token_admits() -> None:
    """The secret itself admits, in any spelling of Bearer; nothing else does."""
    assert gate().admits("Bearer correct horse battery", {}, NOW)
    assert gate().admits("bearer correct horse battery", {}, NOW)
    for wrong in ("", "Bearer", "Bearer ", "Bearer correct", "Basic correct horse battery"):
        assert not gate().admits(wrong, {}, NOW)


def test_cookie_admits_until_it_ends() -> None:
    """A cookie admits for a week, also after a restart of the server."""
    cookie = {gate().cookie_name: gate().new_cookie(NOW)}
    assert gate().admits("", cookie, NOW + SESSION_SECONDS - 1)
    assert not gate().admits("", cookie, NOW + SESSION_SECONDS)


def test_another_secret_ends_all_cookies() -> None:
    """Changing the secret logs everybody out."""
    cookie = {gate().cookie_name: gate().new_cookie(NOW)}
    assert not Gate(bind=OUTSIDE, secret=Secret("another long secret")).admits("", cookie, NOW)


@given(st.text(max_size=80))
def test_forged_cookie_is_refused(value: str) -> None:
    """No text but one of ours is a cookie, and none is an error."""
    assert not gate().admits("", {gate().cookie_name: value}, NOW)


def test_altered_cookie_is_refused() -> None:
    """Its end cannot be moved."""
    expiry, nonce, signature = gate().new_cookie(NOW).split(".")
    later = f"{int(expiry) + 1}.{nonce}.{signature}"
    assert not gate().admits("", {gate().cookie_name: later}, NOW)


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:8470", True), ("localhost:8470", True), ("LOCALHOST", True), ("[::1]:8470", True),
        ("evil.example:8470", False), ("127.0.0.1.evil.example", False), ("", False), ("proxy.lan", True),
    ],
)  # fmt: skip
def test_only_known_names_are_answered(host: str, allowed: bool) -> None:
    """A foreign name that leads to loopback (DNS rebinding) gets no answer."""
    assert Gate(bind=LOCAL._replace(allowed_hosts=("proxy.lan",)), secret=None).host_allowed(host) is allowed


def test_secret_on_loopback_still_checks_the_name() -> None:
    """A secret does not open loopback to foreign names."""
    assert not gate(LOCAL).host_allowed("evil.example")
    assert gate(OUTSIDE).host_allowed("dash.example.org")


def test_actions_come_from_our_own_page() -> None:
    """Scheme, name and port of the origin must be ours; a missing or null one is refused."""
    ours = Gate(bind=LOCAL, secret=None)
    assert ours.origin_allowed("http://127.0.0.1:8470", "127.0.0.1:8470")
    for origin in (None, "null", "https://127.0.0.1:8470", "http://127.0.0.1:9", "http://evil.example"):
        assert not ours.origin_allowed(origin, "127.0.0.1:8470")


def test_secret_does_not_print_itself() -> None:
    """Neither the gate nor its secret shows it in a traceback."""
    assert "horse" not in repr(Secret("correct horse battery"))
    assert "horse" not in str(vars(gate()))
