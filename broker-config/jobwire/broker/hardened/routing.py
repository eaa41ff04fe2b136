"""Who gets a message: subscriptions, retained messages and the access list. No I/O in here."""

import enum
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from jobwire.broker.acl import AccessList, Right, is_topic_filter
from jobwire.broker.hardened.delivery import DeliveryQueue, Outgoing
from jobwire.broker.hardened.limits import BrokerLimits
from jobwire.core.topics import filter_matches

if TYPE_CHECKING:
    from jobwire.broker.hardened.handler import HardenedHandler

SUBSCRIPTION_REFUSED = 0x80
# QoS 2 is granted as 1 (MQTT 3.1.1, 3.9.3): events carry a sequence number and are deduplicated by it.
MAX_GRANTED_QOS = 1

log = logging.getLogger("jobwire.broker")


class Member:
    """One session as the router sees it, connected or not."""

    def __init__(self, *, user: str, client_id: str, persistent: bool, limits: BrokerLimits) -> None:
        self.user = user
        self.client_id = client_id
        self.persistent = persistent
        self.queue = DeliveryQueue(limits)
        self.filters: dict[str, int] = {}
        # QoS 2 packet ids that the client has not released yet.
        self.received: set[int] = set()
        self.connection: HardenedHandler | None = None

    def wanted_qos(self, topic: str) -> int | None:
        """Return the highest QoS of the matching subscriptions, None if none matches."""
        grants = [qos for topic_filter, qos in self.filters.items() if filter_matches(topic_filter, topic)]
        return max(grants, default=None)


class Retained(NamedTuple):
    """What a topic keeps for later subscribers."""

    payload: bytes
    qos: int


class RetainedStore:
    """Retained messages by topic. In memory: what must survive the broker is published again by its owner."""

    def __init__(self, limits: BrokerLimits) -> None:
        self._limits = limits
        self._messages: dict[str, Retained] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    def has_room(self, topic: str, payload: bytes) -> bool:
        """Tell whether `put` stays within the bounds."""
        if not payload or topic in self._messages:
            return True
        return (
            len(self._messages) < self._limits.max_retained_messages
            and self._bytes + len(payload) <= self._limits.max_retained_bytes
        )

    def put(self, topic: str, payload: bytes, qos: int) -> None:
        """Replace the topic's message; an empty payload clears it (MQTT 3.1.1, 3.3.1.3)."""
        before = self._messages.pop(topic, None)
        if before is not None:
            self._bytes -= len(before.payload)
        if payload:
            self._messages[topic] = Retained(payload, qos)
            self._bytes += len(payload)

    def matching(self, topic_filter: str) -> Iterator[tuple[str, Retained]]:
        """Yield topic and message of everything that matches."""
        for topic, message in list(self._messages.items()):
            if filter_matches(topic_filter, topic):
                yield topic, message


class PublishResult(enum.Enum):
    """What became of a published message."""

    ACCEPTED = "accepted"
    REFUSED = "refused by the access list"
    FULL = "a queue is full"


class Router:
    """Applies the access list to every publish, subscription and delivery of its members, by client id."""

    def __init__(self, acl: AccessList, limits: BrokerLimits) -> None:
        self.acl = acl
        self._limits = limits
        self.members: dict[str, Member] = {}
        self._retained = RetainedStore(limits)

    def remove(self, client_id: str) -> None:
        """Forget a session with everything it was owed."""
        member = self.members.pop(client_id, None)
        if member is not None and member.persistent and len(member.queue):
            log.warning(
                "session %s of %s ended with %d undelivered", client_id, member.user, len(member.queue)
            )

    def clear(self) -> None:
        """Forget all sessions and retained messages."""
        self.members.clear()
        self._retained = RetainedStore(self._limits)

    def may_publish(self, user: str, client_id: str, topic: str) -> bool:
        """Tell whether a publish or a Will to `topic` is allowed; `$` topics never are."""
        return not topic.startswith("$") and self.acl.allowed(user, client_id, Right.PUBLISH, topic)

    def publish(
        self, sender: Member, message: Outgoing, *, qos: int, retain: bool, force: bool = False
    ) -> PublishResult:
        """Give `message` to everybody who wants and may have it, or to nobody (FULL).

        `force` goes beyond the bounds, for a Will, which nobody could repeat.
        """
        if not self.may_publish(sender.user, sender.client_id, message.topic):
            return PublishResult.REFUSED
        targets = self._targets(message.topic, qos)
        if qos and not force:
            if retain and not self._retained.has_room(message.topic, message.payload):
                return PublishResult.FULL
            if not all(self._can_take(member, message) for member, granted in targets if granted):
                return PublishResult.FULL
        if retain:
            self._retained.put(message.topic, message.payload, qos)
        for member, granted in targets:
            self._give(member, message, granted)
        return PublishResult.ACCEPTED

    def subscribe(self, member: Member, topic_filter: str, qos: int) -> int:
        """Return the SUBACK code: the granted QoS, or 0x80 for what may not be read."""
        new = topic_filter not in member.filters
        if not is_topic_filter(topic_filter) or (
            new and len(member.filters) >= self._limits.max_subscriptions
        ):
            return SUBSCRIPTION_REFUSED
        if not self.acl.allowed(member.user, member.client_id, Right.SUBSCRIBE, topic_filter):
            return SUBSCRIPTION_REFUSED
        member.filters[topic_filter] = min(qos, MAX_GRANTED_QOS)
        return member.filters[topic_filter]

    def send_retained(self, member: Member, topic_filter: str) -> None:
        """Answer a granted subscription with the retained messages that the member may read.

        A full queue has room for all of them once. Who subscribes again and again and acknowledges none is
        disconnected.
        """
        if len(member.queue) > self._limits.max_queued_messages + self._limits.max_retained_messages:
            if member.connection is not None:
                member.connection.abort("it subscribes and does not acknowledge")
            return
        granted = member.filters[topic_filter]
        for topic, kept in self._retained.matching(topic_filter):
            if self._may_receive(member, topic):
                self._give(member, Outgoing(topic, kept.payload, retain=True), min(kept.qos, granted))

    def _targets(self, topic: str, qos: int) -> list[tuple[Member, int]]:
        found = []
        for member in self.members.values():
            wanted = member.wanted_qos(topic)
            if wanted is not None and self._may_receive(member, topic):
                found.append((member, min(wanted, qos)))
        return found

    def _may_receive(self, member: Member, topic: str) -> bool:
        return self.acl.allowed(member.user, member.client_id, Right.RECEIVE, topic)

    def _can_take(self, member: Member, message: Outgoing) -> bool:
        if member.queue.has_room(message.size):
            return True
        if member.persistent:
            return False
        # A clean session is promised nothing across connections: the slow client learns of its loss by
        # losing the connection, and the publisher need not wait for it.
        if member.connection is not None:
            member.connection.abort("it does not acknowledge and its queue is full")
        return True

    @staticmethod
    def _give(member: Member, message: Outgoing, qos: int) -> None:
        if qos:
            member.queue.put(message)
            if member.connection is not None:
                member.connection.deliver()
        elif member.connection is not None:
            member.connection.send_once(message)
