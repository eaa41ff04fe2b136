r"""A hook's call handed to the registry process of its home, which has loaded what it needs: the form of it.

Over a Unix socket of its own, one call a connection:

    hook     "AGENT SIZE SIZE\n", its environment (NAME=VALUE, NUL between them), its input
    process  "t" (taken), or it closes: the hook does it by itself then, as where nobody listens
    hook     "g" (go on), so that no call is done twice where one of them did not wait
    process  what the hook prints, behind "a"; or behind "e" why it could not be kept

A hook loads this and little else: no `typing`, `json` or `socket`.
"""

import _socket as socket
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKET_FILE = "hooks.sock"
# What is larger is done by the hook itself.
MAX_PART = 1024 * 1024
MAX_HEADER = 100
TAKEN, GO, ANSWER, ERROR = b"t", b"g", b"a", b"e"
# One that is alive takes it in a millisecond; a hook's own way takes a twentieth of a second.
TAKEN_SECONDS = 0.3
# Below the time that a launch gives our hooks.
ANSWER_SECONDS = 25.0
# sun_path has 108 bytes on Linux (unix(7)); it is bound by a name with one more.
LONGEST_PATH = 107
_CHUNK = 65536
_THREE_INTEGERS = 12


class LostCallError(OSError):
    """The process took the call and did not say what became of it: it may have been done."""


class RefusedCallError(Exception):
    """The process could not keep it; the text says why."""


def call(agent: str, raw: bytes, environ: "Mapping[str, str]") -> str | None:
    """Return what the hook prints; None where it has to do it by itself.

    Raises RefusedCallError, and LostCallError for one that must not be tried again.
    """
    path = os.path.join(environ.get("JOBWIRE_HOME", ""), SOCKET_FILE)  # noqa: PTH118 - start-up
    if not path.startswith("/") or len(os.fsencode(path)) >= LONGEST_PATH or len(raw) > MAX_PART:
        return None
    own = b"\0".join(os.fsencode(f"{name}={value}") for name, value in environ.items())
    if len(own) > MAX_PART:
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connection.settimeout(TAKEN_SECONDS)
        try:
            connection.connect(path)
            if peer_of(connection)[1] not in {os.geteuid(), 0}:
                return None
            connection.sendall(b"%s %d %d\n" % (agent.encode(), len(own), len(raw)) + own + raw)
            if connection.recv(1) != TAKEN:
                return None
        except OSError:
            return None
        connection.settimeout(ANSWER_SECONDS)
        connection.sendall(GO)
        return _answer(connection)
    finally:
        connection.close()


def peer_of(connection: "socket.socket") -> tuple[int, int]:
    """Return process and user at the other end, as the kernel knows them (SO_PEERCRED, unix(7))."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _THREE_INTEGERS)
    return int.from_bytes(found[:4], sys.byteorder), int.from_bytes(found[4:8], sys.byteorder)


def _answer(connection: "socket.socket") -> str:
    parts = []
    while part := connection.recv(_CHUNK):
        parts.append(part)
    whole = b"".join(parts)
    kind, text = whole[:1], whole[1:].decode("utf-8", "replace")
    if kind == ERROR:
        raise RefusedCallError(text)
    if kind != ANSWER:
        raise LostCallError("the registry process ended meanwhile")
    return text
