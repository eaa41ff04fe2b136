"""The two small tools that threads talk with."""

import select

import pytest

from jobwire.core.errors import RefusedError, UnreachableError
from jobwire.transport.completion import Completion
from jobwire.transport.waker import Waker


def test_a_ticket_is_settled_once() -> None:
    """The first word counts."""
    completion = Completion()
    assert not completion.wait(0)
    completion.settle()
    completion.settle(UnreachableError("too late"))
    assert completion.wait(0)


def test_a_ticket_raises_what_it_was_settled_with() -> None:
    """An error appears where the caller waits."""
    completion = Completion()
    completion.settle(RefusedError("no"))
    with pytest.raises(RefusedError):
        completion.wait(0)


def readable(waker: Waker) -> bool:
    """Tell whether poll would return."""
    return bool(select.select([waker.fileno()], [], [], 0)[0])


def test_a_waker_wakes_until_cleared_and_again_after() -> None:
    """Many wakes are one; after clear the next one counts again; after close nothing happens."""
    waker = Waker()
    assert not readable(waker)
    waker.wake()
    waker.wake()
    assert readable(waker)
    waker.clear()
    assert not readable(waker)
    waker.clear()
    waker.wake()
    assert readable(waker)
    waker.clear()
    waker.close()
    waker.wake()
