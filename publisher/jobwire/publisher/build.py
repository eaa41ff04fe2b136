"""Wiring: which log, which route. The only place that picks the real adapters."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobwire.core.canonical import MAX_INTEGER
from jobwire.core.errors import InvalidInputError
from jobwire.delivery.handover import HandOver
from jobwire.delivery.outbox import EXPIRY_SECONDS
from jobwire.publisher.variables import ENV_ATTEMPT, ENV_EXPIRY, ENV_JOB, MAX_EXPIRY
from jobwire.registry.event_log import HomeEventLog
from jobwire.registry.store import RecordStore
from jobwire.storage.home import find_home

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobwire.core.clock import Clock
    from jobwire.core.ports import Transport
    from jobwire.delivery.event_log import EventLog
    from jobwire.delivery.outbox_sender import Route
    from jobwire.registry.event_log import Once

# Where the worker's environment points elsewhere than the registry process, that one does not send for it.
_WISHES = {"broker": "MQTT_BROKER", "port": "MQTT_PORT", "topic_root": "MQTT_TOPIC_ROOT"}


def open_event_log(
    *,
    job_id: str | None,
    ticket: str | None,
    home: str | None,
    attempt: int | None,
    clock: Clock,
    environ: Mapping[str, str],
    once: Once | None = None,
) -> EventLog:
    """Return the log of a job: by its ticket where one is given, else in the registry at `home`.

    Without `home` it is found as commands find theirs. Without `attempt` the environment pins it. `once` is
    for a log in the registry that is told one event. Raises InvalidInputError where neither job nor ticket
    is named or the ticket is another job's, and as `find_home` and the logs do.
    """
    if ticket is not None:
        from pathlib import Path

        from jobwire.delivery.ticket_log import TicketEventLog

        events = TicketEventLog(Path(ticket), clock=clock, attempt=attempt)
        if job_id is not None and job_id != events.job_id:
            raise InvalidInputError(f"the ticket {ticket} is for job {events.job_id}, not for {job_id}")
        return events
    if job_id is None:
        raise InvalidInputError("no job is named", hint=f"give --job ID or --ticket FILE, or set {ENV_JOB}")
    pinned = attempt if attempt is not None else attempt_in(environ, job_id)
    return HomeEventLog(RecordStore(find_home(home, environ), clock=clock), job_id, attempt=pinned, once=once)


def open_route(
    events: EventLog,
    *,
    command_line: Mapping[str, object],
    environ: Mapping[str, str],
    clock: Clock,
    expiry_seconds: int | None = None,
) -> Route:
    """Return the way to the broker by the settings of `events`. Does not connect.

    Raises ConfigError for the settings, InvalidInputError for the environment's expiry.
    """
    settings = events.settings(command_line, environ)
    from jobwire.delivery.outbox_sender import Route
    from jobwire.transport import PahoTransport

    def new_transport() -> Transport:
        # At most 23 characters, which every 3.1.1 broker must take (MQTT-3.1.3-5); unlike any other's,
        # because a broker disconnects the older of two equal ones.
        client_id = f"pub-{events.job_id}-{os.urandom(4).hex()}"
        return PahoTransport(settings, client_id=client_id, clean_session=True, clock=clock)

    expiry = _expiry(expiry_seconds, environ)
    return Route(
        settings.address,
        settings.topic_root,
        new_transport,
        (EXPIRY_SECONDS if expiry is None else expiry) or None,
    )


def open_handover(
    events: EventLog,
    *,
    command_line: Mapping[str, object],
    environ: Mapping[str, str],
    clock: Clock,
    expiry_seconds: int | None = None,
) -> HandOver | None:
    """Return the way to the registry process of the job's home; None where the worker is to go its own way.

    That is beside a ticket, where command line or record name a broker, and where the environment's expiry
    is none, which its own way tells. Does not connect. Raises NotFoundError.
    """
    if not isinstance(events, HomeEventLog) or any(value is not None for value in command_line.values()):
        return None
    if events.overrides():
        return None
    wishes = {name: environ[variable] for name, variable in _WISHES.items() if environ.get(variable)}
    try:
        expiry = _expiry(expiry_seconds, environ)
    except InvalidInputError:
        return None
    return HandOver(events.home, wishes=wishes, expiry_seconds=expiry, clock=clock)


def _expiry(option: int | None, environ: Mapping[str, str]) -> int | None:
    return option if option is not None else _number_in(environ, ENV_EXPIRY, MAX_EXPIRY)


def attempt_in(environ: Mapping[str, str], job_id: str) -> int | None:
    """Return the attempt that the environment pins, unless it speaks of another job."""
    if environ.get(ENV_JOB, job_id) != job_id:
        return None
    return _number_in(environ, ENV_ATTEMPT, MAX_INTEGER)


def _number_in(environ: Mapping[str, str], name: str, most: int) -> int | None:
    text = environ.get(name)
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or int(text) > most:
        raise InvalidInputError(f"{name} is {text!r}", hint=f"use a whole number up to {most}, or unset it")
    return int(text)
