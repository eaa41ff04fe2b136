"""Loopback ports that no other test takes meanwhile, in this process or in another."""

import secrets
import socket

_HOST = "127.0.0.1"
# Below Linux's usual ephemeral ports (net.ipv4.ip_local_port_range): no outgoing connection takes one.
_FIRST, _LAST = 15_000, 32_000
# Descriptors of sockets that are bound for as long as this process lives; the kernel frees them however it
# ends (unix(7), abstract sockets).
_reservations: list[int] = []


def free_port() -> int:
    """Return a TCP port that nobody listens on and that is reserved for this process until it ends.

    Asking the kernel for port 0 and closing it would hand the same port to a test that runs beside this
    one. Raises OSError where none is left.
    """
    while len(_reservations) < _LAST - _FIRST:
        port = _FIRST + secrets.randbelow(_LAST - _FIRST)
        if _reserve(port):
            return port
    raise OSError("no loopback port is left to reserve")


def _reserve(port: int) -> bool:
    reservation = socket.socket(socket.AF_UNIX)
    try:
        # In the abstract name space, which each network namespace has for itself, as it has ports.
        reservation.bind(f"\0jobwire-testing-port-{port}")
        with socket.socket() as probe:
            probe.bind((_HOST, port))
    except OSError:
        reservation.close()
        return False
    _reservations.append(reservation.detach())
    return True
