"""Who may look: nobody is asked on loopback, everybody elsewhere. Pure but for reading the secret's file.

One secret, a token or a password, opens the page: as `Authorization: Bearer SECRET` for programs, or
typed once into the login form, which answers with a cookie. The cookie is `expiry.nonce.signature`,
signed with a key made from the secret: it outlives a restart of the server, and another secret ends
all of them.
"""

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from jobwire.core.errors import ConfigError
from jobwire.core.settings import Secret, is_loopback

SESSION_SECONDS = 7 * 86_400
MIN_SECRET = 12
_PURPOSE = b"jobwire dashboard session 1"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_COOKIE_PARTS = 3


class Bind(NamedTuple):
    """Where to listen, and what makes that safe."""

    host: str
    port: int
    certfile: str | None = None
    keyfile: str | None = None
    token_file: str | None = None
    allowed_hosts: tuple[str, ...] = ()

    @property
    def tls(self) -> bool:
        """Tell whether the page is served over TLS."""
        return self.certfile is not None


def check_bind(bind: Bind) -> Secret | None:
    """Return the secret that opens the page, or None where none is asked for.

    Raises ConfigError where others could reach the page without TLS or without a secret, and where the
    secret's file is readable for others or too short.
    """
    if (bind.certfile is None) != (bind.keyfile is None):
        raise ConfigError("TLS needs both a certificate and its key", hint="give --certfile and --keyfile")
    if not is_loopback(bind.host):
        if not bind.tls:
            raise ConfigError(
                f"{bind.host} can be reached by others: the page is served there with TLS only",
                hint="give --certfile and --keyfile (make them: jobwire certs issue-server page "
                "--server-name NAME), or listen on 127.0.0.1 and use an SSH tunnel",
            )
        if bind.token_file is None:
            raise ConfigError(
                f"{bind.host} can be reached by others: the page needs a token or password there",
                hint="put one into a file of mode 0600 and give --token-file FILE",
            )
    return read_secret(Path(bind.token_file)) if bind.token_file is not None else None


def read_secret(path: Path) -> Secret:
    """Return the first line of a file that only its owner can read. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            line = file.readline().decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}", hint="see --token-file") from error
    if mode & _OTHERS:
        raise ConfigError(f"{path} can be read by others", hint=f"chmod 600 {path}")
    if len(line) < MIN_SECRET:
        raise ConfigError(
            f"the secret in {path} has fewer than {MIN_SECRET} characters",
            hint="make one: python3 -c 'import secrets; print(secrets.token_urlsafe())'",
        )
    return Secret(line)


class Gate:
    """Answers for each request whether it may pass. `secret` None asks nobody for one."""

    def __init__(self, *, bind: Bind, secret: Secret | None) -> None:
        self._secret = secret
        self._key = hmac.digest(secret.reveal().encode(), _PURPOSE, "sha256") if secret else b""
        self._hosts = _LOOPBACK_NAMES | {bind.host, *bind.allowed_hosts}
        # Behind a secret a foreign name gains nothing: its pages have no cookie of ours.
        self._any_host = secret is not None and not is_loopback(bind.host)
        self.scheme = "https" if bind.tls else "http"
        # __Host- binds a cookie to this very origin, over TLS (RFC 6265bis, section 4.1.3.2).
        self.cookie_name = "__Host-jobwire" if bind.tls else "jobwire"

    @property
    def asks(self) -> bool:
        """Tell whether a secret is needed."""
        return self._secret is not None

    def host_allowed(self, host: str) -> bool:
        """Tell whether the Host header names this server.

        A page elsewhere may point its own name at 127.0.0.1 (DNS rebinding): then the browser sends
        that name here, and nothing may be answered.
        """
        return self._any_host or _without_port(host) in self._hosts

    def origin_allowed(self, origin: str | None, host: str) -> bool:
        """Tell whether an action comes from our own page: browsers send Origin with every POST."""
        return origin == f"{self.scheme}://{host}"

    def admits(self, authorization: str, cookies: Mapping[str, str], now: float) -> bool:
        """Tell whether the request carries the secret or a cookie that was given for it."""
        if self._secret is None:
            return True
        scheme, _, value = authorization.partition(" ")
        if scheme.lower() == "bearer" and self.secret_fits(value.strip()):
            return True
        return self._cookie_fits(cookies.get(self.cookie_name, ""), now)

    def secret_fits(self, given: str) -> bool:
        """Compare in constant time; digests, because compare_digest shows a length (its documentation)."""
        if self._secret is None:
            return False
        return hmac.compare_digest(_digest(given), _digest(self._secret.reveal()))

    def new_cookie(self, now: float) -> str:
        """Return a cookie's value that admits for SESSION_SECONDS."""
        body = f"{int(now) + SESSION_SECONDS}.{secrets.token_urlsafe(12)}"
        return f"{body}.{self._sign(body)}"

    def _cookie_fits(self, value: str, now: float) -> bool:
        parts = value.split(".")
        if len(parts) != _COOKIE_PARTS or not parts[0].isascii() or not parts[0].isdecimal():
            return False
        if not hmac.compare_digest(self._sign(f"{parts[0]}.{parts[1]}").encode(), parts[2].encode()):
            return False
        return now < int(parts[0])

    def _sign(self, body: str) -> str:
        return hmac.new(self._key, body.encode(), hashlib.sha256).hexdigest()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


def _without_port(host: str) -> str:
    name, separator, port = host.rpartition(":")
    return (name if separator and port.isdecimal() else host).lower()
