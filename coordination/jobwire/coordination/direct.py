"""`--direct`: a job's events are sent to the broker at once, by a connection of our own."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

from jobwire.delivery.outbox import DEFAULT_ATTEMPTS
from jobwire.delivery.outbox_sender import OutboxSender, Route
from jobwire.registry.event_log import HomeEventLog
from jobwire.registry.store import RecordStore
from jobwire.transport import PahoTransport

if TYPE_CHECKING:
    from jobwire.coordination.store import CoordinationStore
    from jobwire.core.ports import Transport


def send_at_once(store: CoordinationStore, job_id: str) -> bool:
    """Send what is kept of the job's events; tell whether all of it was delivered.

    Raises UnreachableError and RefusedError: the events are kept, and sent with the next.
    """
    events = HomeEventLog(RecordStore(store.home, clock=store.clock), job_id, attempt=None)
    settings = events.settings({}, os.environ)

    def connect() -> Transport:
        # As every sender of events: unlike any other's name, because a broker ends the older of two.
        client_id = f"pub-{job_id}-{os.urandom(4).hex()}"
        return PahoTransport(settings, client_id=client_id, clean_session=True, clock=store.clock)

    route = Route(settings.address, settings.topic_root, connect)
    with closing(OutboxSender(events, lambda: route, clock=store.clock)) as sender:
        delivery = sender.flush(attempts=DEFAULT_ATTEMPTS)
    if delivery.failure is not None:
        raise delivery.failure
    return delivery.delivered
