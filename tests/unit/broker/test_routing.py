"""Who gets a message."""

from typing import Any, cast

from jobwire.broker.acl import parse_access_list
from jobwire.broker.hardened.delivery import Outgoing
from jobwire.broker.hardened.limits import BrokerLimits
from jobwire.broker.hardened.routing import Member, PublishResult, RetainedStore, Router

ACL = parse_access_list(
    ["user w", "topic write t/+", "user r", "topic read t/+", "topic deny t/secret"], "acl"
)
LIMITS = BrokerLimits(max_queued_messages=2, max_subscriptions=2, max_retained_messages=1)


class Line:
    """A connection that remembers what it was told."""

    def __init__(self) -> None:
        self.sent: list[Outgoing] = []
        self.ended = ""

    def deliver(self) -> None:
        """Nothing to send on: the queue keeps it."""

    def send_once(self, message: Outgoing) -> None:
        """Remember a QoS 0 message."""
        self.sent.append(message)

    def abort(self, reason: str) -> None:
        """Remember why it ended."""
        self.ended = reason


def member(router: Router, user: str, *, persistent: bool = True, connected: bool = False) -> Member:
    """Return a session that the router knows."""
    made = Member(
        user=user, client_id=f"{user}-{persistent}-{connected}", persistent=persistent, limits=LIMITS
    )
    made.connection = cast("Any", Line()) if connected else None
    router.members[made.client_id] = made
    return made


def line_of(connected: Member) -> Line:
    """Return the connection of a member."""
    return cast("Line", connected.connection)


def test_a_message_is_for_all_or_for_nobody() -> None:
    """Where one persistent queue is full, no other gets the message either."""
    router = Router(ACL, LIMITS)
    writer, full, other = (member(router, user) for user in ("w", "r", "r2"))
    router.acl = parse_access_list(
        ["user w", "topic write t/+", "user r", "topic read t/+", "user r2", "topic read t/+"], "acl"
    )
    router.subscribe(full, "t/a", 1)
    router.subscribe(other, "t/b", 1)
    for number in range(2):
        message = Outgoing("t/a", b"%d" % number)
        assert router.publish(writer, message, qos=1, retain=False) is PublishResult.ACCEPTED
    router.subscribe(other, "t/a", 1)
    assert router.publish(writer, Outgoing("t/a", b"3"), qos=1, retain=True) is PublishResult.FULL
    assert len(other.queue) == 0
    # What is refused is not retained either, and a Will, which nobody could repeat, goes beyond the bound.
    assert (
        router.publish(writer, Outgoing("t/a", b"w"), qos=1, retain=False, force=True)
        is PublishResult.ACCEPTED
    )
    assert (len(full.queue), len(other.queue)) == (3, 1)


def test_a_full_clean_session_loses_its_connection() -> None:
    """A slow client without persistence is disconnected, not waited for."""
    router = Router(ACL, LIMITS)
    writer, slow = member(router, "w"), member(router, "r", persistent=False, connected=True)
    router.subscribe(slow, "t/a", 1)
    for number in range(3):
        message = Outgoing("t/a", b"%d" % number)
        assert router.publish(writer, message, qos=1, retain=False) is PublishResult.ACCEPTED
    assert line_of(slow).ended


def test_qos_is_the_lower_of_both_and_overlaps_count_once() -> None:
    """Two matching subscriptions bring one message, with the lower of wanted and sent QoS."""
    router = Router(ACL, LIMITS)
    writer, reader = member(router, "w"), member(router, "r", connected=True)
    assert router.subscribe(reader, "t/a", 2) == 1
    assert router.subscribe(reader, "t/+", 0) == 0
    router.publish(writer, Outgoing("t/a", b"1"), qos=1, retain=False)
    router.publish(writer, Outgoing("t/a", b"0"), qos=0, retain=False)
    assert [len(reader.queue), [message.payload for message in line_of(reader).sent]] == [1, [b"0"]]


def test_denied_topics_do_not_come_through_wildcards() -> None:
    """A granted wildcard brings no message of a denied topic, neither live nor retained."""
    router = Router(ACL, LIMITS)
    writer, reader = member(router, "w"), member(router, "r")
    router.subscribe(reader, "t/+", 1)
    router.publish(writer, Outgoing("t/secret", b"x"), qos=1, retain=True)
    router.send_retained(reader, "t/+")
    assert len(reader.queue) == 0


def test_who_subscribes_and_acknowledges_nothing_is_disconnected() -> None:
    """A full queue takes what is retained once more, and not again and again."""
    router = Router(ACL, LIMITS)
    writer, reader = member(router, "w"), member(router, "r", connected=True)
    router.subscribe(reader, "t/a", 1)
    for number in range(2):
        router.publish(writer, Outgoing("t/a", b"%d" % number), qos=1, retain=True)
    router.send_retained(reader, "t/a")
    assert (len(reader.queue), line_of(reader).ended) == (3, "")
    for _ in range(9):
        router.send_retained(reader, "t/a")
    assert (len(reader.queue), line_of(reader).ended) == (4, "it subscribes and does not acknowledge")


def test_subscriptions_are_bounded() -> None:
    """A session cannot hold more filters than allowed; one it has can be renewed."""
    router = Router(ACL, LIMITS)
    reader = member(router, "r")
    assert [router.subscribe(reader, topic, 1) for topic in ("t/a", "t/b", "t/c", "t/a")] == [1, 1, 0x80, 1]


def test_retained_messages_are_bounded_and_cleared() -> None:
    """A full store takes no new topic; an empty payload clears one and makes room."""
    store = RetainedStore(LIMITS)
    store.put("a", b"1", 1)
    assert not store.has_room("b", b"1")
    assert store.has_room("a", b"2")
    assert store.has_room("b", b"")
    store.put("a", b"", 1)
    assert (len(store), store.has_room("b", b"1")) == (0, True)


def test_a_retained_message_beyond_the_bound_is_not_acknowledged() -> None:
    """A publisher whose retained message does not fit is told so by the missing acknowledgement."""
    router = Router(ACL, LIMITS)
    writer = member(router, "w")
    assert router.publish(writer, Outgoing("t/a", b"1"), qos=1, retain=True) is PublishResult.ACCEPTED
    assert router.publish(writer, Outgoing("t/b", b"1"), qos=1, retain=True) is PublishResult.FULL
