"""Mosquitto's password file: `name:$7$iterations$salt$hash`, PBKDF2-HMAC-SHA512.

The format is the one that mosquitto_passwd(1) writes, so one file serves both brokers. Mosquitto
2.0 accepts exactly 12 bytes of salt and 64 of hash, and takes the iteration count from the line.
"""

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

from jobwire.broker.defaults import MAX_ITERATIONS, PRESENT_DAY_ITERATIONS
from jobwire.broker.files import read_text, replace_private, sole_writer
from jobwire.core.errors import ConfigError, InvalidInputError, NotFoundError
from jobwire.core.override import override
from jobwire.core.topics import JOB_ID_PATTERN, check_identity

# 32 random bytes cannot be guessed however fast the hash is (NIST SP 800-132 asks for 1,000 at least), and
# Mosquitto computes the hash on its only thread at every CONNECT (docs/adr/0102).
MACHINE_ITERATIONS = 1_000
SALT_BYTES = 12
HASH_BYTES = 64
MAX_PASSWORD_BYTES = 65_535  # MQTT 3.1.1 section 3.1.3.5: a two-byte length
_FIELDS = 5
_DECOY = b"\0" * SALT_BYTES


class PasswordHash(NamedTuple):
    """One parsed `$7$` hash."""

    iterations: int
    salt: bytes
    digest: bytes

    def matches(self, password: bytes) -> bool:
        """Tell whether `password` gives this hash; compared in constant time. Costs the iterations."""
        return hmac.compare_digest(_derive(password, self.salt, self.iterations), self.digest)

    @override
    def __str__(self) -> str:
        salt, digest = (base64.b64encode(part).decode() for part in (self.salt, self.digest))
        return f"$7${self.iterations}${salt}${digest}"


def hash_password(
    password: str, *, iterations: int = PRESENT_DAY_ITERATIONS, salt: bytes | None = None
) -> PasswordHash:
    """Return a fresh hash of `password`; raises InvalidInputError for an unusable one."""
    raw = password.encode()
    if not raw or b"\0" in raw or len(raw) > MAX_PASSWORD_BYTES:
        raise InvalidInputError("a password must not be empty, too long or contain a NUL byte")
    check_iterations(iterations)
    salt = os.urandom(SALT_BYTES) if salt is None else salt
    return PasswordHash(iterations, salt, _derive(raw, salt, iterations))


def check_iterations(iterations: int) -> int:
    """Return `iterations` if a hash may have so many, else raise InvalidInputError."""
    if not 1 <= iterations <= MAX_ITERATIONS:
        raise InvalidInputError(f"not a usable iteration count: {iterations}", hint=f"1 to {MAX_ITERATIONS}")
    return iterations


def parse_hash(text: str) -> PasswordHash:
    """Return the hash written as `text`; raises ValueError with the reason."""
    parts = text.split("$")
    if len(parts) >= 2 and parts[:2] == ["", "6"]:  # noqa: PLR2004 - "" and the format digit
        raise ValueError("an old $6$ hash (one round of SHA512)")
    if len(parts) != _FIELDS or parts[:2] != ["", "7"]:
        raise ValueError("the hash does not read $7$iterations$salt$hash")
    if not parts[2].isascii() or not parts[2].isdigit() or not 1 <= int(parts[2]) <= MAX_ITERATIONS:
        raise ValueError(f"the iteration count is not a number from 1 to {MAX_ITERATIONS}")
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in parts[3:])
    except (binascii.Error, ValueError) as error:
        raise ValueError("salt or hash is not base64") from error
    if len(salt) != SALT_BYTES or len(digest) != HASH_BYTES:
        raise ValueError(f"the salt must be {SALT_BYTES} bytes and the hash {HASH_BYTES}")
    return PasswordHash(int(parts[2]), salt, digest)


def check_user_name(name: str) -> str:
    """Return `name` if it may be a password user, else raise InvalidInputError.

    A job id is refused: under the ACL's `%u` patterns such a user would be that job.
    """
    check_identity(name)
    if re.fullmatch(JOB_ID_PATTERN, name):
        raise InvalidInputError(
            f"a password user may not be named like a job: {name!r}",
            hint="job identities are certificates: jobwire certs issue-job",
            name=name,
        )
    return name


class PasswordFile:
    """The users of one password file, in file order. Not thread-safe; reads and writes block."""

    def __init__(self, path: Path, entries: dict[str, PasswordHash]) -> None:
        self.path = path
        self.entries = entries

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read `path`; raises ConfigError naming the line that cannot be used."""
        text = read_text(path, "password file", hint="jobwire broker up or render creates it")
        return cls(path, parse_passwords(text.split("\n"), str(path)))

    @classmethod
    @contextmanager
    def edit(cls, path: Path, *, create: bool = False) -> Iterator[Self]:
        """Give the users of `path` to change, and save them at the end if they were changed.

        No other command changes the file meanwhile. With `create` a missing file is an empty one.
        """
        if not (create or path.exists()):
            cls.load(path)  # says what is missing
        with sole_writer(path.parent):
            users = cls.load(path) if path.exists() else cls(path, {})
            before = users.render()
            yield users
            if users.render() != before or not path.exists():
                replace_private(path, users.render())

    def verify(self, name: str, password: bytes) -> bool:
        """Tell whether `password` is the one of `name`.

        Blocks for the hash's iterations, for an unknown name as well: the time must not tell names.
        """
        entry = self.entries.get(name)
        if entry is not None:
            return entry.matches(password)
        iterations = max((known.iterations for known in self.entries.values()), default=1)
        _derive(password, _DECOY, iterations)
        return False

    def set(self, name: str, password: str, *, iterations: int = PRESENT_DAY_ITERATIONS) -> None:
        """Add `name` or change its password in memory."""
        self.entries[check_user_name(name)] = hash_password(password, iterations=iterations)

    def remove(self, name: str) -> None:
        """Remove `name`; raises NotFoundError if there is no such user."""
        if self.entries.pop(name, None) is None:
            raise NotFoundError(
                f"no user {name!r} in {self.path}", hint="jobwire broker passwd list shows them", name=name
            )

    def render(self) -> str:
        """Return the file's text."""
        return "".join(f"{name}:{entry}\n" for name, entry in self.entries.items())


def parse_passwords(lines: Iterable[str], source: str) -> dict[str, PasswordHash]:
    """Return the entries of a password file's lines; ConfigError names `source` and the line."""
    entries: dict[str, PasswordHash] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, separator, rest = line.partition(":")
        try:
            if not separator:
                raise ValueError("no colon between name and hash")  # noqa: TRY301 - told with its line below
            if check_user_name(name) in entries:
                raise ValueError(f"the user {name!r} is there twice")  # noqa: TRY301 - as above
            entries[name] = parse_hash(rest.strip())
        except (ValueError, InvalidInputError) as error:
            reason = error.message if isinstance(error, InvalidInputError) else str(error)
            raise ConfigError(
                f"{source}, line {number}: {reason}",
                hint="write lines with `jobwire broker passwd add` or mosquitto_passwd",
                path=source,
                line=number,
            ) from error
    return entries


def _derive(password: bytes, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha512", password, salt, iterations, HASH_BYTES)
