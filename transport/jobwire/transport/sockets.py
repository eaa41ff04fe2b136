"""Opens the TCP or TLS connection and buffers it in both directions."""

import socket
import ssl
import time

_CHUNK = 65536


def open_socket(host: str, port: int, *, context: ssl.SSLContext | None, deadline: float) -> socket.socket:
    """Return a connected socket, its TLS handshake done, before monotonic time `deadline`.

    Tries every address of the name in turn, each with its share of the time. Raises OSError:
    ssl.SSLError, socket.gaierror and TimeoutError are kinds of it.
    """
    failure: OSError = OSError(f"{host} has no address")
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for index, (family, kind, protocol, _, address) in enumerate(addresses):
        plain = socket.socket(family, kind, protocol)
        try:
            plain.settimeout(_remaining(deadline) / (len(addresses) - index))
            plain.connect(address)
            # Else CONNECT waits for the delayed acknowledgement of the last handshake packet.
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is None:
                return plain
            plain.settimeout(_remaining(deadline))
            return context.wrap_socket(plain, server_hostname=host)
        except OSError as error:
            plain.close()
            failure = error
            if isinstance(error, ssl.SSLError):
                break  # somebody answered there: the other addresses are the same broker
    raise failure


def _remaining(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("timed out")
    return seconds


class BufferedSocket:
    """What paho takes for its socket: reads ahead, and writes when told to.

    paho reads each packet in three calls and writes each in one. Here a packet costs no system call
    of its own: one `recv` fetches what is there, one `flush` sends what was queued. It also keeps
    the error that ended the connection. Used by one thread.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._ahead = b""
        self._position = 0
        self._unsent = bytearray()
        self.failure: OSError | None = None
        self.drained = False

    @property
    def unsent(self) -> bool:
        """Tell whether `flush` has more to do."""
        return bool(self._unsent)

    def recv(self, buffer_size: int) -> bytes:
        """Return up to `buffer_size` bytes; raises BlockingIOError and sets `drained` if there are none."""
        if self._position >= len(self._ahead):
            self._ahead = self._fetch()
            self._position = 0
        start = self._position
        data = self._ahead[start : start + buffer_size]
        self._position = start + len(data)
        return data

    def _fetch(self) -> bytes:
        try:
            data = self._sock.recv(_CHUNK)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            self.drained = True
            raise BlockingIOError from None
        except OSError as error:
            self.failure = error
            raise
        self.drained = False
        return data

    def send(self, buffer: bytes | bytearray) -> int:
        """Queue all of `buffer` for `flush`."""
        self._unsent += buffer
        return len(buffer)

    def flush(self) -> None:
        """Send as much as the kernel takes now; raises OSError when the connection is broken."""
        while self._unsent:
            try:
                sent = self._sock.send(self._unsent)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
                return
            except OSError as error:
                self.failure = error
                raise
            del self._unsent[:sent]

    def close(self) -> None:
        """Send what can be sent at once (paho closes right after its DISCONNECT) and close."""
        try:
            self.flush()
        except OSError:
            pass  # closing a broken connection; its reason is in `failure`
        finally:
            self._unsent.clear()
            self._sock.close()

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._sock.fileno()

    def setblocking(self, flag: bool) -> None:
        """Switch blocking mode."""
        self._sock.setblocking(flag)
