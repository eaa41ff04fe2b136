"""Deliveries against a small model: any order of sends, takes, acks, failures and time passing."""

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jobwire.coordination import reading, sending, taking
from jobwire.coordination.delivery import DELIVERY_TRANSITIONS, MAX_TRIES, DeliveryState
from jobwire.coordination.message import NewMessage
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.taking import Taken
from jobwire.core.errors import ConflictError, NoWorkError
from jobwire.core.override import override
from jobwire.testing.clock import ManualClock

AGENTS = ("a", "b")
THREADS = ("t1", "t2")


class _Sent:
    """What the model knows of one message for one agent."""

    def __init__(self, seq: int, agent: str, thread: str) -> None:
        self.seq, self.agent, self.thread = seq, agent, thread
        self.state = "queued"
        self.tries = 0
        self.lease_ends = 0.0
        self.rests_until = 0.0
        self.redriven = False


class DeliveryMachine(RuleBasedStateMachine):
    """Each message is done once, in order within its thread, and never forgotten."""

    make_folder: Callable[[], Path]

    @initialize()
    def begin(self) -> None:
        """Open an empty store."""
        self.clock = ManualClock()
        self.store = CoordinationStore(str(type(self).make_folder()), clock=self.clock)
        self.sent: list[_Sent] = []
        self.held: dict[tuple[int, str], Taken] = {}
        self.threads: dict[str, str] = {}

    @rule(to=st.sets(st.sampled_from(AGENTS), min_size=1), thread=st.sampled_from(THREADS))
    def send(self, to: set[str], thread: str) -> None:
        """Send into one of two threads."""
        new = NewMessage("sender", tuple(sorted(to)), summary="x", thread_id=self.threads.get(thread))
        posted = sending.send(self.store, new)
        self.threads[thread] = posted.thread_id
        self.sent += [_Sent(posted.event_id, name, thread) for name in sorted(to)]

    @rule(agent=st.sampled_from(AGENTS))
    def take(self, agent: str) -> None:
        """Take what the model says is next, or nothing."""
        self._lapse(agent)
        now = self.clock.now()
        heads: dict[str, _Sent] = {}
        for one in self.sent:
            if one.agent == agent and one.state in {"queued", "leased"}:
                heads.setdefault(one.thread, one)
        ready = {one.seq for one in heads.values() if one.state == "queued" and one.rests_until <= now}
        resting = {one.seq for one in heads.values() if one.state == "queued" and one.rests_until > now}
        try:
            taken = taking.take(self.store, agent, seconds=60.0)
        except NoWorkError:
            assert not ready
            return
        # How long a message rests has jitter: the model knows when it has surely ended.
        assert taken.message.seq in ready | resting
        found = self._find(taken.message.seq, agent)
        found.state, found.tries, found.lease_ends = "leased", found.tries + 1, now + 60.0
        assert taken.delivery.attempts == found.tries
        self.held[found.seq, agent] = taken

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        """Acknowledge something that was taken once; an old lease is refused."""
        taken, found = self._some(data)
        arguments = (self.store, found.agent, taken.message.id)
        if found.state == "leased" or (found.state == "done" and self._is_last(taken, found)):
            assert taking.ack(*arguments, token=taken.token).state == "done"
            found.state = "done"
        else:
            with pytest.raises(ConflictError):
                taking.ack(*arguments, token=taken.token)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), permanent=st.booleans())
    def nack(self, data: st.DataObject, permanent: bool) -> None:
        """Give something back."""
        taken, found = self._some(data)
        arguments = (self.store, found.agent, taken.message.id, "why")
        if found.state != "leased":
            with pytest.raises(ConflictError):
                taking.nack(*arguments, token=taken.token, permanent=permanent)
            return
        after = taking.nack(*arguments, token=taken.token, permanent=permanent)
        self._failed(found, dead=permanent or found.tries >= MAX_TRIES)
        assert after.state == found.state

    @rule(seconds=st.sampled_from([0.5, 5.0, 61.0]))
    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.advance(seconds)

    @rule(agent=st.sampled_from(AGENTS))
    def die(self, agent: str) -> None:
        """Let an agent be found dead: what it held is queued again."""
        with self.store.changing() as change:
            taking.requeue_of(change, agent, "dead")
        for one in self.sent:
            if one.agent == agent and one.state == "leased":
                self._failed(one, dead=one.tries >= MAX_TRIES)

    @precondition(lambda self: any(one.state == "dead" for one in self.sent))
    @rule()
    def redrive(self) -> None:
        """Bring the first dead one back."""
        one = next(one for one in self.sent if one.state == "dead")
        taking.redrive(self.store, one.seq, one.agent, by="sender", force=True)
        one.state, one.tries, one.rests_until, one.redriven = "queued", 0, 0.0, True

    @invariant()
    def agrees(self) -> None:
        """Every message is where the model says, and each cursor lies below what is open."""
        if not hasattr(self, "store"):
            return
        for one in self.sent:
            state = self.store.rows("delivery", {"agent_id": one.agent, "seq": one.seq})[0][3]
            assert state == one.state
        self.store.latest_event()  # makes it where nobody has used it yet
        for agent in AGENTS:
            with contextlib.closing(sqlite3.connect(self.store.path)) as reader:
                rows = reader.execute("SELECT last_acked_seq FROM cursors WHERE agent_id = ?", (agent,))
                cursor = next((row[0] for row in rows), 0)
            opened = [one for one in self.sent if one.agent == agent and self._is_open(one)]
            # A cursor goes forward only: it stays above what was final once and is brought back.
            assert all(one.seq > cursor or one.redriven for one in opened)

    @override
    def teardown(self) -> None:
        """Close the store."""
        if hasattr(self, "store"):
            assert len(reading.threads(self.store)) == len(self.threads)
            self.store.close()

    def _is_open(self, one: _Sent) -> bool:
        return one.state in {"queued", "leased"}

    def _is_last(self, taken: Taken, found: _Sent) -> bool:
        return self.held[found.seq, found.agent] is taken

    def _some(self, data: st.DataObject) -> tuple[Taken, _Sent]:
        key = data.draw(st.sampled_from(sorted(self.held)))
        return self.held[key], self._find(*key)

    def _find(self, seq: int, agent: str) -> _Sent:
        return next(one for one in self.sent if (one.seq, one.agent) == (seq, agent))

    def _lapse(self, agent: str) -> None:
        for one in self.sent:
            if one.agent == agent and one.state == "leased" and one.lease_ends <= self.clock.now():
                self._failed(one, dead=one.tries >= MAX_TRIES)

    def _failed(self, one: _Sent, *, dead: bool) -> None:
        one.state = "dead" if dead else "queued"
        one.rests_until = self.clock.now() + min(0.5 * 2 ** (one.tries - 1), 60.0)


def test_deliveries_are_as_their_model(make_folder: Callable[[], Path]) -> None:
    """Done once, dead with a reason or still to come: whatever happens in whatever order."""
    DeliveryMachine.make_folder = staticmethod(make_folder)
    DeliveryMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
    DeliveryMachine.TestCase("runTest").debug()


def test_every_state_is_left_or_final() -> None:
    """The table of moves reaches every state, and nothing leaves what is done or dropped."""
    assert {after for _, after in DELIVERY_TRANSITIONS} == set(DeliveryState)
    left = {before for before, _ in DELIVERY_TRANSITIONS}
    assert set(DeliveryState) - left == {DeliveryState.DONE, DeliveryState.DROPPED}
