r"""Work handed to the registry process of its home, which has loaded and connected what it takes.

One call a connection, over a Unix socket:

    command  "NAME SIZE SIZE\n", its environment (NAME=VALUE, NUL between them), what it was given
    process  "t" (taken), or it closes: the command does it by itself then, as where nobody listens
    command  "g" (go on), so that no call is done twice where one of them did not wait
    process  the answer, whose form is the command's; nothing where it could not be done here

A command loads this and little else: no `typing`, `json` or `socket`.
"""

import _socket as socket
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKET_FILE = "calls.sock"
# What is larger is done by the command itself.
MAX_PART = 1024 * 1024
MAX_HEADER = 100
TAKEN, GO = b"t", b"g"
# One that is alive takes it in a millisecond; a command's own way takes a twentieth of a second.
TAKEN_SECONDS = 0.3
# sun_path has 108 bytes on Linux (unix(7)); it is bound by a name with one more.
_LONGEST_PATH = 106
_CHUNK = 65536
_QUEUE_SECONDS = 0.005
_THREE_INTEGERS = 12


class LostCallError(OSError):
    """The process took the call and did not say what became of it: it may have been done."""


def call(
    home: str,
    name: str,
    environ: "Mapping[str, str]",
    given: bytes,
    *,
    answer_seconds: float,
    taken_seconds: float = TAKEN_SECONDS,
) -> bytes | None:
    """Return the answer; None where the command has to do it by itself, since nobody does it here.

    Blocks for `taken_seconds` where the process stands still, for `answer_seconds` where it does so later; 0
    of those waits for no answer and returns b"". Raises LostCallError for a call that may have been done.
    """
    if not home or len(given) > MAX_PART:
        return None
    own = b"\0".join(os.fsencode(f"{name}={value}") for name, value in environ.items())
    if len(own) > MAX_PART:
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    folder = None
    try:
        connection.settimeout(taken_seconds)
        try:
            path, folder = address_in(home)
            _queue_up(connection, path, taken_seconds)
            if peer_of(connection)[1] not in {os.geteuid(), 0}:
                return None
            connection.sendall(b"%s %d %d\n" % (name.encode(), len(own), len(given)) + own + given)
            if connection.recv(1) != TAKEN:
                return None
        except OSError:
            return None
        return _answer(connection, answer_seconds)
    finally:
        connection.close()
        if folder is not None:
            os.close(folder)


def address_in(home: str) -> tuple[str, int | None]:
    """Return the name by which the home's socket is bound and connected to, however deep the home lies.

    And the descriptor, if any, that the name needs: close it when the name is used. Raises OSError.
    """
    path = os.path.join(home, SOCKET_FILE)  # noqa: PTH118 - start-up
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        return path, None
    folder = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return f"/proc/self/fd/{folder}/{SOCKET_FILE}", folder


def peer_of(connection: "socket.socket") -> tuple[int, int]:
    """Return process and user at the other end, as the kernel knows them (SO_PEERCRED, unix(7))."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _THREE_INTEGERS)
    return int.from_bytes(found[:4], sys.byteorder), int.from_bytes(found[4:8], sys.byteorder)


def _queue_up(connection: "socket.socket", path: str, seconds: float) -> None:
    """Connect; a full queue answers EAGAIN at once, whatever the timeout (connect(2)). Raises OSError."""
    give_up = time.monotonic() + seconds
    while True:
        try:
            connection.connect(path)
        except BlockingIOError:
            if time.monotonic() >= give_up:
                raise
            time.sleep(_QUEUE_SECONDS)
        else:
            return


def _answer(connection: "socket.socket", seconds: float) -> bytes:
    parts = []
    try:
        connection.settimeout(seconds)
        connection.sendall(GO)
        if not seconds:
            return b""
        while part := connection.recv(_CHUNK):
            parts.append(part)
    except OSError as error:
        raise LostCallError(f"the registry process did not answer: {error}") from error
    if not parts:
        raise LostCallError("the registry process ended meanwhile")
    return b"".join(parts)
