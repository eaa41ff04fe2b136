"""Who is let in: whoever has the page token. Pure but for reading the token's file.

One secret opens the page, wherever it listens: other users of the host reach loopback as well. It is the
first line of `--token-file`, or made anew at each start and shown in the address. It is taken in the
address (`?token=`), typed into the login form, or as `Authorization: Bearer`; a browser gets a cookie for
it. The cookie is `expiry.nonce.signature`, signed with a key made from the secret: another secret ends all
of them.
"""

import hashlib
import hmac
import re
import secrets
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple

from jobwire.core.errors import ConfigError
from jobwire.core.settings import Secret, is_loopback
from jobwire.storage.named_files import read_named_file

SESSION_SECONDS = 7 * 86_400
MIN_SECRET = 12
_MAX_TOKEN_FILE = 4096
_PURPOSE = b"jobwire dashboard session 1"
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_COOKIE = re.compile(r"([0-9]{1,12})\.[A-Za-z0-9_-]{1,64}\.[0-9a-f]{64}")
# A path of ours, as it stands in an address: printable ASCII, and not `//host`, which is another server.
_LOCAL_PATH = re.compile(r"/(?!/)[!-\[\]-~]*")
_MAX_PATH = 2048
_ENTRANCES = ("/login", "/logout")


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

    @property
    def own_token(self) -> bool:
        """Tell whether the page's token is made for its process, and nobody else has it."""
        return self.token_file is None


class Credentials(NamedTuple):
    """What a request brings to be let in; "" where it brings none."""

    authorization: str = ""
    address: str = ""
    cookie: str = ""


class Access(Enum):
    """What credentials are worth. Only `WRONG` may have been a guess."""

    ADMITTED = auto()
    ASKED = auto()
    WRONG = auto()


def check_bind(bind: Bind) -> None:
    """Raise ConfigError where the page could be reached from elsewhere without TLS or a token file."""
    if (bind.certfile is None) != (bind.keyfile is None):
        raise ConfigError("TLS needs both a certificate and its key", hint="give --certfile and --keyfile")
    if is_loopback(bind.host):
        return
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


def page_token(bind: Bind) -> Secret:
    """Return the token of `--token-file`, or a new one. Raises ConfigError for a file that is not safe."""
    if bind.token_file is not None:
        return read_secret(Path(bind.token_file))
    return Secret(secrets.token_urlsafe(32))


def read_secret(path: Path) -> Secret:
    """Return the first line of a file that only its owner can read. Raises ConfigError."""
    try:
        content = read_named_file(
            path, "token file", limit=_MAX_TOKEN_FILE, private=True, hint="see --token-file"
        )
        line = (content.decode().splitlines() or [""])[0].strip()
    except (FileNotFoundError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}", hint="see --token-file") from error
    if len(line) < MIN_SECRET:
        raise ConfigError(
            f"the secret in {path} has fewer than {MIN_SECRET} characters",
            hint="make one: python3 -c 'import secrets; print(secrets.token_urlsafe())'",
        )
    return Secret(line)


def local_path(text: str) -> str:
    """Return `text` where it is a path of this server, as it stands in an address, else "/"."""
    if len(text) <= _MAX_PATH and _LOCAL_PATH.fullmatch(text) and not text.startswith(_ENTRANCES):
        return text
    return "/"


class Gate:
    """Answers for each request whether it may pass."""

    def __init__(self, *, bind: Bind, secret: Secret) -> None:
        self._secret = secret
        self._key = hmac.digest(secret.reveal().encode(), _PURPOSE, "sha256")
        self._hosts = _LOOPBACK_NAMES | {bind.host, *bind.allowed_hosts}
        # Over TLS a foreign name gains nothing: the certificate does not have it.
        self._any_host = not is_loopback(bind.host)
        self.secure = bind.tls
        # A proxy in front may speak TLS where we do not.
        self._schemes = ("https",) if bind.tls else ("http", "https")
        # __Host- binds a cookie to this very host, over TLS (RFC 6265bis, section 4.1.3.2). The port, because
        # browsers send cookies to every port of a host: two pages would log each other out.
        self.cookie_name = f"{'__Host-' if bind.tls else ''}jobwire-{bind.port}"

    def host_allowed(self, host: str) -> bool:
        """Tell whether the Host header names this server.

        A page elsewhere may point its own name at 127.0.0.1 (DNS rebinding): then the browser sends
        that name here, and nothing may be answered.
        """
        return self._any_host or _without_port(host) in self._hosts

    def origin_allowed(self, origin: str, host: str) -> bool:
        """Tell whether a request comes from our own page: browsers send Origin with every POST."""
        return origin in [f"{scheme}://{host}" for scheme in self._schemes]

    def judge(self, credentials: Credentials, now: float) -> Access:
        """Say what credentials are worth at `now`, in epoch seconds."""
        scheme, _, bearer = credentials.authorization.partition(" ")
        if scheme.lower() == "bearer" and self.secret_fits(bearer.strip()):
            return Access.ADMITTED
        if credentials.address and self.secret_fits(credentials.address):
            return Access.ADMITTED
        ours = self._signed_until(credentials.cookie)
        if ours is not None and now < ours:
            return Access.ADMITTED
        # A cookie that ended was right once: nobody guesses with it.
        guesses = credentials if ours is None else credentials._replace(cookie="")
        return Access.WRONG if any(guesses) else Access.ASKED

    def secret_fits(self, given: str) -> bool:
        """Compare in constant time; digests, because compare_digest shows a length (its documentation)."""
        return hmac.compare_digest(_digest(given), _digest(self._secret.reveal()))

    def new_cookie(self, now: float) -> str:
        """Return a cookie's value that admits for SESSION_SECONDS."""
        body = f"{int(now) + SESSION_SECONDS}.{secrets.token_urlsafe(12)}"
        return f"{body}.{self._sign(body)}"

    def _signed_until(self, cookie: str) -> int | None:
        """Return when a cookie of ours ends, or None where it is not ours."""
        found = _COOKIE.fullmatch(cookie)
        if found is None:
            return None
        body, _, signature = cookie.rpartition(".")
        return int(found[1]) if hmac.compare_digest(self._sign(body), signature) else None

    def _sign(self, body: str) -> str:
        return hmac.new(self._key, body.encode(), hashlib.sha256).hexdigest()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


def _without_port(host: str) -> str:
    name, separator, port = host.rpartition(":")
    return (name if separator and port.isdecimal() else host).lower()
