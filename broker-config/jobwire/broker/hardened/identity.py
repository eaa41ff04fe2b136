"""Who a client is: the CN of its verified certificate, or a user with the right password."""

import asyncio
import hashlib
import hmac
import os
import ssl
from typing import NamedTuple

from jobwire.broker.passwd import PasswordFile, PasswordHash
from jobwire.core.errors import InvalidInputError
from jobwire.core.topics import check_wire_name


class Principal(NamedTuple):
    """An authenticated name; a certificate also fixes the client id, as `use_username_as_clientid` does."""

    name: str
    by_certificate: bool


class Authenticator:
    """Checks certificates and passwords of `users`. The slow hash runs in a thread and once a password."""

    def __init__(self, users: PasswordFile) -> None:
        self.users = users
        self._key = os.urandom(32)
        self._verified: dict[str, tuple[PasswordHash, bytes]] = {}

    async def identify(
        self, *, tls: ssl.SSLObject | None, username: str | None, password: str | None
    ) -> Principal | None:
        """Return who the client is, or None if it must be refused."""
        certificate = tls.getpeercert() if tls is not None else None
        if certificate:
            name = certificate_name(certificate)
            return Principal(name, by_certificate=True) if name is not None else None
        if not username or not password:
            return None
        return Principal(username, by_certificate=False) if await self._passes(username, password) else None

    async def _passes(self, name: str, password: str) -> bool:
        raw = password.encode(errors="surrogatepass")
        entry = self.users.entries.get(name)
        known = self._verified.get(name)
        # A keyed digest in memory stands for a password that passed: the stretching protects the file,
        # and would cost every cold publish 0.1 s again.
        digest = hmac.digest(self._key, raw, hashlib.sha256)
        if known is not None and known[0] == entry and hmac.compare_digest(known[1], digest):
            return True
        if not await asyncio.to_thread(self.users.verify, name, raw):
            return False
        if entry is not None:
            self._verified[name] = (entry, digest)
        return True


def certificate_name(certificate: object) -> str | None:
    """Return the one CN of `SSLObject.getpeercert()`'s subject if it is a usable identity."""
    subject = certificate.get("subject", ()) if isinstance(certificate, dict) else ()
    names = [value for part in subject for key, value in part if key == "commonName"]
    if len(names) != 1:
        return None
    try:
        return check_wire_name(names[0])
    except InvalidInputError:
        return None
