"""The connection of a watch: what is left of it when the watch ends."""

import threading

import pytest

from jobwire.core.ports import Transport
from jobwire.subscriber import connection
from jobwire.subscriber.connection import Connection
from jobwire.testing import InMemoryBroker, wait_for


def test_a_watch_that_ends_while_it_connects_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No session at the broker, and no thread that would be in the middle of TLS when the process ends."""
    monkeypatch.setattr(connection, "_CLEAR_SECONDS", 60.0)
    reached, answered = threading.Event(), threading.Event()
    broker = InMemoryBroker()

    def transport(clean: bool) -> Transport:
        reached.set()
        assert answered.wait(60)
        return broker.transport("watch", clean_session=clean)

    watch = Connection(
        factory=transport,
        event_filters=["root/0a1b2c3d/events"],
        state_filters=[],
    )
    watch.start()
    assert reached.wait(60)
    ending = threading.Thread(target=watch.close)
    ending.start()
    wait_for(watch._closing.is_set, what="the end of the watch")
    ending.join(0.1)
    assert ending.is_alive()
    answered.set()
    ending.join(60)
    assert not ending.is_alive()
    assert watch._thread is not None
    assert not watch._thread.is_alive()
    assert broker._sessions == {}
