"""Buffering between paho and the kernel."""

import socket

import pytest

from jobwire.transport.sockets import BufferedSocket


def pair() -> tuple[BufferedSocket, socket.socket]:
    """Return a buffered non-blocking end and the plain other end."""
    near, far = socket.socketpair()
    near.setblocking(False)
    return BufferedSocket(near), far


def is_unsent(sock: BufferedSocket) -> bool:
    """Ask anew: a type checker remembers the answer of a property."""
    return sock.unsent


def test_reading_goes_ahead_and_keeps_boundaries_out() -> None:
    """Small reads are served from what one large read fetched, byte for byte."""
    near, far = pair()
    far.sendall(b"abcdef")
    assert near.recv(1) == b"a"
    assert near.recv(2) == b"bc"
    assert near.recv(100) == b"def"
    with pytest.raises(BlockingIOError):
        near.recv(1)
    assert near.drained
    far.close()
    assert near.recv(1) == b""
    near.close()


def test_writing_waits_for_flush() -> None:
    """Several sends leave with one flush, in order."""
    near, far = pair()
    assert near.send(b"ab") == 2
    assert near.send(bytearray(b"cd")) == 2
    assert near.unsent
    far.setblocking(False)
    with pytest.raises(BlockingIOError):
        far.recv(1)
    near.flush()
    assert far.recv(10) == b"abcd"
    assert not is_unsent(near)
    near.close()
    far.close()


def test_a_full_kernel_buffer_keeps_the_rest() -> None:
    """What the kernel does not take stays queued and is complete in the end."""
    near, far = pair()
    blob = bytes(range(256)) * 20_000
    near.send(blob)
    near.flush()
    assert near.unsent
    received = b""
    while len(received) < len(blob):
        received += far.recv(1 << 20)
        near.flush()
    assert received == blob
    near.close()
    far.close()


def test_close_sends_what_is_queued() -> None:
    """A DISCONNECT that paho queued just before closing gets out."""
    near, far = pair()
    near.send(b"bye")
    near.close()
    assert far.recv(10) == b"bye"
    far.close()


def test_the_reason_of_a_broken_connection_is_kept() -> None:
    """Sending to nobody raises, and `failure` tells later why."""
    near, far = pair()
    far.close()
    near.send(b"x")
    with pytest.raises(BrokenPipeError) as caught:
        near.flush()
    assert near.failure is caught.value
    near.close()
