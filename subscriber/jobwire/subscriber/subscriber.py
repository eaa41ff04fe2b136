"""Watching jobs from Python: a function with a callback, and a class to iterate."""

import os
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from jobwire.core.clock import Clock, SystemClock
from jobwire.core.errors import ConfigError, InvalidInputError
from jobwire.core.ports import Transport
from jobwire.core.roles import Role
from jobwire.core.settings import BrokerSettings
from jobwire.core.topics import Topics, check_job_id
from jobwire.jobs.event import Event
from jobwire.jobs.ticket import Ticket
from jobwire.registry.store import RecordStore
from jobwire.storage.home import find_home
from jobwire.subscriber.connection import Connection, Factory
from jobwire.subscriber.fleet import Fleet, Mode
from jobwire.subscriber.outcome import EventLine, Line, Verdict, Verdicts
from jobwire.subscriber.records import LocalJobs
from jobwire.subscriber.watch_loop import TimeoutOverrides, WatchLoop, run
from jobwire.transport import load_settings

# How long a broker keeps what arrives while we are cut off, and our session if we are killed.
SESSION_EXPIRY_SECONDS = 3600


def new_client_id() -> str:
    """Return a client id of our own: two watchers of one job must not take each other's session.

    It stays the same while the watch lives, so its persistent session survives reconnects. 23
    characters, because a server may refuse longer ones (MQTT 3.1.1, 3.1.3.1).
    """
    return f"jw-sub-{secrets.token_hex(8)}"


def paho_factory(settings: BrokerSettings, client_id: str) -> Factory:
    """Return a maker of transports to the broker of `settings`, all under `client_id`."""

    def make(clean: bool) -> Transport:
        from jobwire.transport import PahoTransport  # noqa: PLC0415 - a finished job needs no broker

        return PahoTransport(
            settings,
            client_id=client_id,
            clean_session=clean,
            session_expiry_seconds=SESSION_EXPIRY_SECONDS,
        )

    return make


def open_watch(
    *,
    settings: BrokerSettings,
    jobs: Sequence[str] = (),
    home: Path | str | None = None,
    tickets: Sequence[Ticket] = (),
    all_jobs: bool = False,
    timeouts: TimeoutOverrides | None = None,
    mode: Mode = Mode(),  # noqa: B008 - immutable
    strict_idle: bool = False,
    broker_required: bool = True,
    stop: threading.Event | None = None,
    clock: Clock | None = None,
    factory: Factory | None = None,
    warn: Callable[[str], None] = lambda _: None,
) -> WatchLoop:
    """Wire a watch together; nothing is read or connected before it runs.

    `home` is needed for `jobs` and `all_jobs`. Raises InvalidInputError.
    """
    clock = clock or SystemClock()
    ids = list(dict.fromkeys(check_job_id(job_id) for job_id in jobs))
    if not (ids or tickets or all_jobs):
        raise InvalidInputError("no job to watch", hint="name a job, a ticket, or all")
    twice = {ticket.job_id for ticket in tickets} & set(ids)
    if twice or len({ticket.job_id for ticket in tickets}) < len(tickets):
        raise InvalidInputError(f"a job is named twice: {', '.join(sorted(twice)) or 'by two tickets'}")
    if home is None and (ids or all_jobs):
        raise InvalidInputError("jobs without a ticket need the registry's directory", hint="give its home")
    topics = Topics(settings.topic_root)
    watched = [*ids, *(ticket.job_id for ticket in tickets)]
    if all_jobs:
        watched = ["+", *(ticket.job_id for ticket in tickets)]
    return WatchLoop(
        connection=Connection(
            factory=factory or paho_factory(settings, new_client_id()),
            event_filters=[topics.events(job_id) for job_id in watched],
            state_filters=[topics.state(job_id) for job_id in watched],
            # A worker's certificate may read its job's state and no events.
            events_required=home is not None,
            required=broker_required,
        ),
        topics=topics,
        records=None if home is None else LocalJobs(RecordStore(os.fspath(home), clock=clock), warn=warn),
        fleet=Fleet(mode),
        clock=clock,
        stop=stop or threading.Event(),
        jobs=ids,
        tickets=tickets,
        all_jobs=all_jobs,
        timeouts=timeouts,
        strict_idle=strict_idle,
    )


def watch_jobs(
    *,
    jobs: Sequence[str],
    home: Path | str | None = None,
    settings: BrokerSettings,
    timeouts: TimeoutOverrides | None = None,
    mode: Mode = Mode(),  # noqa: B008 - immutable
    on_line: Callable[[Line], None],
    stop: threading.Event | None = None,
    strict_idle: bool = False,
    broker_required: bool = True,
) -> Verdicts:
    """Watch `jobs` to the end and return their verdicts; blocks.

    A home that is not named is found as commands find theirs.
    `timeouts` outranks the records' limits: a `jobs.record.Timeouts` replaces all of them, a mapping
    of its field names some; seconds, None is no limit. `on_line` is called in this thread with every
    EventLine, Verdict, Note and Refusal, in order. Setting `stop` from another thread ends it within half
    a second, `interrupted`. Raises NotFoundError, StorageError, RefusedError, ConfigError; a broker that is
    down is waited for.
    """
    return run(
        open_watch(
            jobs=jobs,
            home=find_home(None if home is None else os.fspath(home), os.environ),
            settings=settings,
            timeouts=timeouts,
            mode=mode,
            strict_idle=strict_idle,
            broker_required=broker_required,
            stop=stop,
        ),
        on_line,
    )


class Subscriber:
    """Iterates over the events of one job, or of several; `verdict` is there when the iteration is over.

        with Subscriber(job_id, home=".hermes") as events:
            for event in events:
                ...
        print(events.verdict.outcome, events.verdict.data)

    Iterating blocks until an event comes or a timeout ends it, and raises as `watch_jobs`; so does setting
    `stop` from another thread. Leaving the block early disconnects; then `verdict` stays None, as it does of
    several jobs: `verdicts` holds theirs. Without `settings` they come from the home, the jobs' records and
    the environment, under `broker`, which holds settings as command line options do.
    """

    def __init__(
        self,
        job_id: str | Sequence[str],
        *,
        home: Path | str | None = None,
        settings: BrokerSettings | None = None,
        broker: Mapping[str, object] | None = None,
        environ: Mapping[str, str] | None = None,
        timeouts: TimeoutOverrides | None = None,
        mode: Mode = Mode(),  # noqa: B008 - immutable
        strict_idle: bool = False,
        stop: threading.Event | None = None,
        on_line: Callable[[Line], None] = lambda _: None,
    ) -> None:
        environ = os.environ if environ is None else environ
        found = find_home(None if home is None else os.fspath(home), environ)
        self._jobs = [job_id] if isinstance(job_id, str) else list(job_id)
        self._watch = open_watch(
            jobs=self._jobs,
            home=found,
            settings=settings or settings_for(list(settings_of(found, self._jobs, broker or {}, environ))),
            timeouts=timeouts,
            mode=mode,
            strict_idle=strict_idle,
            stop=stop,
        )
        self._on_line = on_line
        self._batches = self._watch.batches()
        self._lines: deque[Line] = deque()
        self.verdict: Verdict | None = None

    @property
    def verdicts(self) -> Verdicts:
        """Return the verdicts so far."""
        return self._watch.verdicts()

    def __iter__(self) -> Iterator[Event]:
        """Yield each event once; a loop that is begun again goes on where the last one was left."""
        while self._lines or self._more():
            line = self._lines.popleft()
            self._on_line(line)
            if isinstance(line, EventLine):
                yield line.event
            elif isinstance(line, Verdict) and len(self._jobs) == 1:
                self.verdict = line

    def __enter__(self) -> Self:
        """Read the record: the job's events count from here on."""
        self._lines.extend(next(self._batches))
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _more(self) -> bool:
        """Wait for lines; tell whether any came before the watch was over."""
        for batch in self._batches:
            if batch:
                self._lines.extend(batch)
                return True
        return False

    def close(self) -> None:
        """Disconnect and clear the broker's session; idempotent."""
        self._batches.close()


def settings_of(
    home: Path | str,
    jobs: Sequence[str],
    command_line: Mapping[str, object],
    environ: Mapping[str, str],
    *,
    all_jobs: bool = False,
) -> Iterator[tuple[str, BrokerSettings]]:
    """Yield the watcher's settings for each job, by its record, and those of the home for `all_jobs`.

    Raises NotFoundError, StorageError and ConfigError.
    """
    store = RecordStore(home)
    overrides: list[tuple[str, Mapping[str, object]]] = [(job, store.get(job).broker) for job in jobs]
    for name, record in [*overrides, *([("of this home", {})] if all_jobs else [])]:
        yield (
            name,
            load_settings(
                home=Path(home), role=Role.HERMES, command_line=command_line, record=record, environ=environ
            ),
        )


def settings_for(records: Sequence[tuple[str, BrokerSettings]]) -> BrokerSettings:
    """Return the one broker that all jobs share; raises ConfigError where they name several."""
    job_id, first = records[0]
    for other_id, other in records[1:]:
        if other != first:
            raise ConfigError(
                f"jobs {job_id} and {other_id} use different brokers: {first.address} and {other.address}",
                hint="watch them with one command each",
            )
    return first
