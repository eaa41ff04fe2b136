"""The sender: in order, at least once, one sender at a time, and honest about what became of it."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from jobwire.core.errors import RefusedError, StoppedError, UnreachableError
from jobwire.delivery.event_log import EventLog
from jobwire.delivery.outbox import RESEND_SECONDS, SentMark
from jobwire.delivery.outbox_sender import OutboxSender
from jobwire.delivery.signing import Draft
from jobwire.jobs import fold
from jobwire.registry.event_log import HomeEventLog
from jobwire.registry.layout import SERVE_FILE, SERVE_LOCK
from jobwire.registry.store import RecordStore
from jobwire.storage import file_lock
from jobwire.testing import InMemoryBroker, ManualClock, wait_for
from jobwire.testing.unsent import unsent
from tests.unit.delivery.conftest import publish

Patch = pytest.MonkeyPatch
JOB = "0a1b2c3d"
STARTED, PROGRESS, COMPLETED = Draft("started"), Draft("progress", "x"), Draft("completed", "done")


class Senders(Protocol):
    """The fixture of the same name."""

    connections: int
    sender: Callable[[EventLog], OutboxSender]


def _seqs(broker: InMemoryBroker) -> list[int]:
    return [json.loads(message.payload)["seq"] for message in broker.published]


def test_events_arrive_signed_retained_and_in_order(
    events: HomeEventLog, store: RecordStore, senders: Senders, broker: InMemoryBroker
) -> None:
    """Each event is published once; only the terminal one is retained, with its expiry."""
    sender = senders.sender(events)
    for draft in (STARTED, PROGRESS, COMPLETED):
        published = publish(events, sender, draft)
        assert published.delivered
        assert published.failure is None
    sender.close()
    assert _seqs(broker) == [1, 2, 3]
    assert [message.retain for message in broker.published] == [False, False, True]
    assert [message.expiry_seconds for message in broker.published] == [None, None, 60]
    assert {message.topic for message in broker.published} == {f"python/mqtt/jobs/{JOB}/events"}
    assert senders.connections == 1
    assert unsent(store.home, JOB) == []


def test_an_absent_broker_keeps_the_event_and_the_next_one_brings_it(
    events: HomeEventLog, senders: Senders, broker: InMemoryBroker, clock: ManualClock
) -> None:
    """After all tries the event stays in the outbox, and goes out before the next one."""
    broker.stop()
    sender = senders.sender(events)
    published = publish(events, sender, STARTED, attempts=4)
    assert not published.delivered
    assert isinstance(published.failure, UnreachableError)
    assert "--flush" in published.failure.hint
    assert clock.slept == [0.5, 1.0, 2.0]
    assert senders.connections == 4
    broker.start()
    assert publish(events, sender, PROGRESS).delivered
    assert _seqs(broker) == [1, 2]


def test_a_refusal_is_not_tried_again(events: HomeEventLog, senders: Senders, broker: InMemoryBroker) -> None:
    """A broker that says no is asked once; the event is kept and the answer says so."""
    broker.refuse_connections(RefusedError("wrong password", hint="check it"))
    published = publish(events, senders.sender(events), STARTED)
    assert isinstance(published.failure, RefusedError)
    assert senders.connections == 1
    assert published.failure.hint.startswith("check it; the event is kept")
    assert events.outbox.last_seq == 1


def test_a_lost_puback_means_once_more(
    events: HomeEventLog, senders: Senders, broker: InMemoryBroker
) -> None:
    """When the broker may or may not have an event, it is sent again: at least once."""
    broker.lose_pubacks(1)
    assert publish(events, senders.sender(events), STARTED).delivered
    assert _seqs(broker) == [1, 1]


def test_flushing_sends_in_order_and_asks_nobody_for_nothing(
    events: HomeEventLog, senders: Senders, broker: InMemoryBroker
) -> None:
    """A flush empties the outbox in the order of seq; an empty one opens no connection."""
    for draft in (STARTED, PROGRESS, PROGRESS, COMPLETED):
        events.append(draft)
    delivery = senders.sender(events).flush(attempts=1)
    assert (delivery.delivered, delivery.sent) == (True, 4)
    assert _seqs(broker) == [1, 2, 3, 4]
    before = senders.connections
    assert senders.sender(events).flush(attempts=1).sent == 0
    assert senders.connections == before


def test_what_another_process_sent_is_not_sent_again(
    events: HomeEventLog, senders: Senders, broker: InMemoryBroker
) -> None:
    """One that finds its event sent already opens no connection."""
    first, second = events.append(STARTED), events.append(PROGRESS)
    assert senders.sender(events).deliver(second.seq, attempts=1).sent == 2
    answer = senders.sender(events).deliver(first.seq, attempts=1)
    assert (answer.delivered, answer.sent, senders.connections) == (True, 0, 1)
    assert _seqs(broker) == [1, 2]


def test_one_that_waited_for_a_failed_sender_does_not_try_again(
    events: HomeEventLog, store: RecordStore, senders: Senders, broker: InMemoryBroker, clock: ManualClock
) -> None:
    """The broker was away a moment ago for the sender that was waited for: that is answer enough."""
    entry = events.append(STARTED)
    answers = []
    waiting = threading.Thread(
        target=lambda: answers.append(senders.sender(events).deliver(entry.seq, attempts=9))
    )
    with events.sending(deadline_seconds=1):
        waiting.start()
        wait_for(lambda: clock.slept, what="the other one waiting for the lock")
        events.outbox.mark.write(SentMark(0, 0.0, 0, clock.monotonic(), "bus:1"))
    waiting.join(60)
    assert isinstance(answers[0].failure, UnreachableError)
    assert senders.connections == 0


def test_an_old_failure_does_not_keep_anybody_from_trying(
    events: HomeEventLog, senders: Senders, clock: ManualClock
) -> None:
    """A failure from before this try, from a later boot's clock, or of another broker is no answer."""
    for failed_at, address in ((clock.monotonic() - 1, "bus:1"), (clock.monotonic() + 1e6, "bus:1")):
        events.outbox.mark.write(SentMark(0, 0.0, 0, failed_at, address))
    assert publish(events, senders.sender(events), STARTED).delivered


def test_a_mark_that_cannot_be_kept_changes_no_answer(
    events: HomeEventLog, senders: Senders, store: RecordStore
) -> None:
    """The sent mark saves work and promises nothing."""
    Path(store.outbox_path(JOB)).with_suffix(".sent").mkdir()
    published = publish(events, senders.sender(events), STARTED)
    assert published.delivered
    assert published.failure is None


def test_an_attempt_that_ended_while_sending_stops_its_worker(
    events: HomeEventLog, store: RecordStore, senders: Senders, broker: InMemoryBroker, clock: ManualClock
) -> None:
    """An event whose key became void before it was sent is not sent, and its worker is told to stop."""
    entry = events.append(STARTED)
    with store.locked(JOB) as locked:
        locked.replace(fold.next_attempt(locked.record, "n" * 43, clock.now(), "lease"), cause="lease")
    answer = senders.sender(events).deliver(entry.seq, attempts=1)
    assert isinstance(answer.failure, StoppedError)
    assert not answer.delivered
    assert broker.published == []


class TestWithARegistryProcess:
    """Where a registry process confirms, the outbox is trimmed by its word, not by the broker's."""

    @pytest.fixture(autouse=True)
    def serve(self, store: RecordStore, clock: ManualClock) -> Iterator[ExitStack]:
        """Let a registry process look after this home, until what is given is closed."""
        Path(store.home, SERVE_FILE).write_text("{}")
        lock = file_lock.held(
            store.lock_path(SERVE_LOCK), clock=clock, deadline_seconds=0, what="the registry"
        )
        with ExitStack() as process:
            process.enter_context(lock)
            yield process

    @staticmethod
    def confirm(store: RecordStore, seq: int) -> None:
        """Say that `seq` is journaled."""
        with store.locked(JOB) as locked:
            locked.replace(locked.record._replace(confirmed_seq=seq), cause="journaled")

    def test_delivered_is_not_confirmed(
        self, events: HomeEventLog, store: RecordStore, senders: Senders, broker: InMemoryBroker
    ) -> None:
        """A PUBACK alone keeps the event in the outbox; the registry's word removes it."""
        sender = senders.sender(events)
        publish(events, sender, STARTED)
        assert events.outbox.last_seq == 1
        self.confirm(store, 1)
        publish(events, sender, PROGRESS)
        self.confirm(store, 2)
        assert sender.confirm(2, 1.0)
        assert unsent(store.home, JOB) == []
        assert _seqs(broker) == [1, 2]

    def test_unconfirmed_events_are_sent_again_in_time(
        self, events: HomeEventLog, senders: Senders, broker: InMemoryBroker, clock: ManualClock
    ) -> None:
        """What a broker lost is sent again, in order, and less and less often."""
        sender = senders.sender(events)
        publish(events, sender, STARTED)
        publish(events, sender, PROGRESS)
        assert _seqs(broker) == [1, 2]
        clock.advance(RESEND_SECONDS)
        publish(events, sender, PROGRESS)
        assert _seqs(broker) == [1, 2, 1, 2, 3]
        clock.advance(RESEND_SECONDS)
        publish(events, sender, PROGRESS)
        assert _seqs(broker) == [1, 2, 1, 2, 3, 4]

    def test_a_talkative_worker_does_not_put_it_off(
        self, events: HomeEventLog, senders: Senders, broker: InMemoryBroker, clock: ManualClock
    ) -> None:
        """The time until unconfirmed events are sent again runs on while newer ones are sent."""
        sender = senders.sender(events)
        publish(events, sender, STARTED)
        for _ in range(2):
            clock.advance(RESEND_SECONDS / 2)
            publish(events, sender, PROGRESS)
        assert _seqs(broker) == [1, 2, 1, 2, 3]

    def test_what_is_confirmed_late_but_steadily_is_sent_once(
        self,
        events: HomeEventLog,
        store: RecordStore,
        senders: Senders,
        broker: InMemoryBroker,
        clock: ManualClock,
    ) -> None:
        """A registry that is always one event behind makes nobody send anything again."""
        sender = senders.sender(events)
        publish(events, sender, STARTED)
        for seq in range(1, 6):
            clock.advance(RESEND_SECONDS * 0.7)
            publish(events, sender, PROGRESS)
            self.confirm(store, seq)
        assert _seqs(broker) == [1, 2, 3, 4, 5, 6]
        clock.advance(RESEND_SECONDS)
        publish(events, sender, PROGRESS)
        assert _seqs(broker)[6:] == [6, 7]

    def test_a_flush_repeats_what_is_unconfirmed(
        self, events: HomeEventLog, store: RecordStore, senders: Senders, broker: InMemoryBroker
    ) -> None:
        """Asked for, everything unconfirmed is sent again, and nothing that is confirmed."""
        sender = senders.sender(events)
        for draft in (STARTED, PROGRESS, PROGRESS):
            publish(events, sender, draft)
        self.confirm(store, 1)
        assert sender.flush(attempts=1).sent == 2
        assert _seqs(broker) == [1, 2, 3, 2, 3]

    def test_a_flush_that_reaches_nobody_claims_nothing(
        self, events: HomeEventLog, store: RecordStore, senders: Senders, broker: InMemoryBroker
    ) -> None:
        """A flush that failed has delivered nothing, whatever had a PUBACK before; it says how much waits."""
        sender = senders.sender(events)
        for draft in (STARTED, PROGRESS, PROGRESS):
            assert publish(events, sender, draft).delivered
        self.confirm(store, 1)
        sender.close()
        broker.stop()
        delivery = sender.flush(attempts=1)
        assert isinstance(delivery.failure, UnreachableError)
        assert (delivery.delivered, delivery.sent, delivery.waiting) == (False, 0, 2)
        broker.start()
        delivery = sender.flush(attempts=1)
        assert (delivery.delivered, delivery.sent, delivery.waiting) == (True, 2, 2)
        self.confirm(store, 3)
        assert sender.flush(attempts=1).waiting == 0

    def test_a_flush_waits_for_the_registry_where_it_is_asked_to(
        self, events: HomeEventLog, store: RecordStore, senders: Senders, clock: ManualClock
    ) -> None:
        """Without the registry's word the time passes and the events wait; with it nothing does."""
        sender = senders.sender(events)
        publish(events, sender, STARTED)
        before = clock.monotonic()
        assert sender.flush(attempts=1, confirm_seconds=3.0).waiting == 1
        assert clock.monotonic() - before >= 3.0
        self.confirm(store, 1)
        assert sender.flush(attempts=1, confirm_seconds=3.0).waiting == 0

    def test_a_terminal_event_waits_for_its_confirmation(
        self, events: HomeEventLog, senders: Senders, clock: ManualClock
    ) -> None:
        """Without the registry's word the answer is: delivered, not confirmed; the event stays."""
        sender = senders.sender(events)
        assert publish(events, sender, STARTED).confirmed is None
        before = clock.monotonic()
        published = publish(events, sender, COMPLETED)
        assert (published.delivered, published.confirmed) == (True, False)
        assert published.to_json()["confirmed"] is False
        assert 10 <= clock.monotonic() - before < 11
        assert events.outbox.last_seq == 2

    def test_nobody_waits_for_a_registry_process_that_is_gone(
        self, serve: ExitStack, events: HomeEventLog, senders: Senders, clock: ManualClock
    ) -> None:
        """Where serve.json was left behind, a terminal event is kept and its confirmation not waited for."""
        serve.close()
        sender = senders.sender(events)
        publish(events, sender, STARTED)
        before = clock.monotonic()
        published = publish(events, sender, COMPLETED)
        assert (published.delivered, published.confirmed) == (True, False)
        assert clock.monotonic() == before
        assert events.outbox.last_seq == 2

    def test_a_confirmed_terminal_event_says_so(
        self,
        events: HomeEventLog,
        store: RecordStore,
        senders: Senders,
        clock: ManualClock,
        monkeypatch: Patch,
    ) -> None:
        """With the registry's word the outbox is empty and the answer says confirmed."""
        publish(events, senders.sender(events), STARTED)
        # The word comes while the worker waits for it.
        monkeypatch.setattr(clock, "sleep", lambda _: self.confirm(store, 2))
        published = publish(events, senders.sender(events), COMPLETED)
        assert published.confirmed
        assert unsent(store.home, JOB) == []
