"""Publishing one event: keep it, send it, wait for the registry's word where that is due."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.errors import (
    InvalidInputError,
    JobwireError,
    RefusedError,
    TransportError,
)
from jobwire.delivery.outbox import DEFAULT_ATTEMPTS, Delivery

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobwire.delivery.event_log import EventLog
    from jobwire.delivery.handover import HandOver
    from jobwire.delivery.outbox_sender import OutboxSender
    from jobwire.delivery.signing import Draft

# How long a terminal event waits for the registry process, where there is one.
CONFIRM_SECONDS = 10.0


class Published(NamedTuple):
    """One event that is the job's now, and how far it came.

    `confirmed` is None where no confirmation was waited for. `failure` says why it was not delivered,
    or why the worker must stop although it was.
    """

    job_id: str
    seq: int
    event: str
    delivered: bool
    confirmed: bool | None = None
    failure: JobwireError | None = None

    def to_json(self) -> dict[str, object]:
        """Return the object that `publish_event` prints."""
        body: dict[str, object] = {
            "job_id": self.job_id,
            "seq": self.seq,
            "event": self.event,
            "delivered": self.delivered,
        }
        return body if self.confirmed is None else {**body, "confirmed": self.confirmed}


def publish(
    events: EventLog,
    sender: Callable[[], OutboxSender],
    draft: Draft,
    *,
    handover: HandOver | None = None,
    attempts: int = DEFAULT_ATTEMPTS,
    repeat: bool = False,
    confirm_seconds: float | None = None,
) -> Published:
    """Keep `draft` as the job's next event and send what is due.

    By `handover` where a registry process takes it, else by what `sender` returns. Wrong settings do not keep
    an event from being kept: they are often somebody else's, and a worker speaks once.
    `confirm_seconds`: how long to wait for the registry process; None waits CONFIRM_SECONDS for a
    terminal event where such a process runs, else not at all. Raises what `EventLog.append` raises: then
    nothing was kept. What fails later is in the answer.
    """
    entry = events.append(draft)
    delivery = deliver(events, sender, entry.seq, handover=handover, attempts=attempts, repeat=repeat)
    confirmed: bool | None = delivery.confirmed
    failure = delivery.failure
    if delivery.delivered and failure is None and not confirmed:
        try:
            confirmed = confirm(events, sender, entry.seq, confirm_seconds, terminal=entry.retain)
        except JobwireError as error:
            failure = error
    return Published(
        events.job_id, entry.seq, entry.event, delivery.delivered, confirmed, kept(failure, events)
    )


def deliver(
    events: EventLog,
    sender: Callable[[], OutboxSender],
    seq: int,
    *,
    handover: HandOver | None,
    attempts: int,
    repeat: bool = False,
) -> Delivery:
    """Bring everything due, at least up to `seq`, to the broker; as `OutboxSender.deliver`."""
    handed = handover.deliver(events.job_id, seq) if handover is not None else None
    return handed if handed is not None else sender().deliver(seq, attempts=attempts, repeat=repeat)


def confirm(
    events: EventLog,
    sender: Callable[[], OutboxSender],
    seq: int,
    seconds: float | None,
    *,
    terminal: bool,
) -> bool | None:
    """Wait as `publish` does until the registry process has `seq`; None where that is not waited for."""
    if seconds is None:
        if not terminal or events.position().confirmed_seq is None:
            return None
        if not events.is_attended():
            return False
        seconds = CONFIRM_SECONDS
    return sender().confirm(seq, seconds) if seconds > 0 else None


def kept(failure: JobwireError | None, events: EventLog) -> JobwireError | None:
    """Return `failure` with what happens next to the events that are still in the outbox.

    What is invalid once the event is kept are the settings.
    """
    if isinstance(failure, (TransportError, InvalidInputError)):
        # A refusal and wrong settings have their own remedy, which comes first.
        first = (
            f"{failure.hint}; "
            if failure.hint and isinstance(failure, (RefusedError, InvalidInputError))
            else ""
        )
        failure.hint = (
            f"{first}the event is kept in {events.outbox.path}: the job's next publish_event sends it first,"
            " `publish_event --flush` sends it now"
        )
    return failure
