"""The watch over several jobs against a real broker and a real disk: the loop around the state machines."""

import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

from jobwire.core.clock import Clock
from jobwire.core.ports import Incoming, Message, SessionLost, SessionStarted
from jobwire.core.topics import TopicAddress, Topics
from jobwire.jobs.admission import Accepted, JobView, Reason, Rejected, admit
from jobwire.jobs.record import JobRecord, Timeouts
from jobwire.jobs.snapshot import UnknownStateError, decode_snapshot
from jobwire.jobs.ticket import Ticket
from jobwire.subscriber.connection import Connection
from jobwire.subscriber.fleet import Fleet
from jobwire.subscriber.notifications import JobCondition
from jobwire.subscriber.outcome import Line, Note, Refusal, Verdict, Verdicts
from jobwire.subscriber.records import LocalJobs
from jobwire.subscriber.watch import JobWatch

# How often records are looked at; also how soon `stop` is noticed.
POLL_SECONDS = 0.25
_BATCH = 512
# Before a timeout is believed, what is on its way gets this long: a process that was stopped and
# continued finds its events still in the socket.
_LAST_LOOK_SECONDS = 0.05
_LAST_LOOK_ITEMS = 8192
# For up to so many jobs the next timer is computed at every turn.
_FEW = 16

# All limits at once, or some of them by field name over those of the records.
TimeoutOverrides = Timeouts | Mapping[str, float | None]


class WatchLoop:
    """Runs a watch once. `jobs` are watched by their records, `tickets` without; both may be empty.

    `all_jobs` adds every unfinished job of the registry and those that appear. `timeouts` goes before
    the limits of records and tickets; a limit of None is none.
    """

    def __init__(
        self,
        *,
        connection: Connection,
        topics: Topics,
        records: LocalJobs | None,
        fleet: Fleet,
        clock: Clock,
        stop: threading.Event,
        jobs: Sequence[str] = (),
        tickets: Sequence[Ticket] = (),
        all_jobs: bool = False,
        timeouts: TimeoutOverrides | None = None,
        strict_idle: bool = False,
    ) -> None:
        self._connection = connection
        self._topics = topics
        self._records = records
        self._fleet = fleet
        self._clock = clock
        self._stop = stop
        self._jobs = jobs
        self._tickets = tickets
        self._all_jobs = all_jobs
        self._timeouts = timeouts._asdict() if isinstance(timeouts, Timeouts) else dict(timeouts or {})
        self._strict_idle = strict_idle
        self._recorded: set[str] = set()
        self._addresses: dict[str, TopicAddress | None] = {}
        self._lines: list[Line] = []
        self._taken: list[Message] = []
        self._next_poll = 0.0
        self._deadline = 0.0
        self._looked = True

    def batches(self) -> Generator[list[Line], None, None]:
        """Yield what there is to say, in order, until the watch is over.

        Messages are acknowledged when the consumer asks for the next batch. Raises NotFoundError for
        an unknown job, StorageError for an unreadable registry, RefusedError and ConfigError for a broker
        that will never have us. The broker's session is cleared however this ends.
        """
        self._begin()
        yield self._flush()
        if self._fleet.done():
            return
        self._connection.start()
        try:
            while not self._fleet.done() and not self._stop.is_set():
                self._turn()
                yield self._flush()
                self._connection.acknowledge(self._taken)
                self._taken.clear()
        finally:
            self._connection.close()

    def verdicts(self) -> Verdicts:
        """Return the verdicts so far; interrupted where the watch was stopped before it was over."""
        return self._fleet.verdicts(interrupted=not self._fleet.done())

    @property
    def connected(self) -> bool:
        """Tell whether the broker has granted the subscriptions: nothing sent from now on is missed."""
        return self._connection.connected

    @property
    def open_jobs(self) -> int:
        """Return how many jobs have no verdict yet."""
        return self._fleet.count

    def conditions(self) -> list[JobCondition]:
        """Return how the jobs without a verdict stand: once for each look at the records, then nothing."""
        looked, self._looked = self._looked, False
        if not looked:
            return []
        return [
            JobCondition(watch.job_id, watch.started, watch.attention, watch.detail)
            for watch in self._fleet.open()
        ]

    @property
    def titles(self) -> dict[str, str]:
        """Return the titles of the jobs that were watched."""
        return self._fleet.titles()

    # Beginning.

    def _begin(self) -> None:
        records = self._records
        if records is not None:
            named = [records.read(job_id) for job_id in self._jobs]
            others = [r for r in records.unfinished() if r.job_id not in self._jobs] if self._all_jobs else []
            for record in (*named, *others):
                self._watch_record(record)
        for ticket in self._tickets:
            self._watch_ticket(ticket)

    def _watch_record(self, record: JobRecord, *, from_start: bool = False) -> JobWatch:
        watch = JobWatch.of_record(
            record,
            limits=self._limits(record.timeouts),
            now=self._clock.monotonic(),
            strict_idle=self._strict_idle,
            from_start=from_start,
        )
        self._recorded.add(record.job_id)
        self._fleet.add(watch)
        if record.terminal and not from_start:
            watch.hurry()
        self._say(watch.on_record(record, self._clock.monotonic()))
        if record.terminal:
            self._expire(watch)
        return watch

    def _watch_ticket(self, ticket: Ticket) -> None:
        view = JobView(
            token=ticket.auth_token, attempt=ticket.attempt, attempt_seq=ticket.attempt_seq, joined_late=True
        )
        self._fleet.add(
            JobWatch(
                ticket.job_id,
                view=view,
                limits=self._limits(ticket.timeouts),
                now=self._clock.monotonic(),
                strict_idle=self._strict_idle,
                has_record=False,
                joined_seq=ticket.last_seq,
            )
        )

    def _limits(self, defaults: Timeouts) -> Timeouts:
        return defaults._replace(**self._timeouts)

    # One turn of the loop.

    def _turn(self) -> None:
        now = self._clock.monotonic()
        timeout = max(0.0, min(self._next_poll, self._deadline) - now)
        incoming = self._connection.receive(_BATCH, timeout)
        self._take(incoming)
        self._lines += [Note("", text) for text in self._connection.notes()]
        now = self._clock.monotonic()
        if now >= self._next_poll:
            self._poll()
            self._next_poll = now + POLL_SECONDS
            self._deadline = self._fleet.deadline
        elif self._fleet.count <= _FEW:
            self._deadline = self._fleet.deadline
        if now >= self._deadline:
            self._last_look()

    def _last_look(self) -> None:
        """Look at everything once more because a timer seems to be up, then believe the clock."""
        self._poll()
        self._take(self._connection.receive(_LAST_LOOK_ITEMS, _LAST_LOOK_SECONDS))
        for watch in self._fleet.open():
            self._expire(watch)
        self._deadline = self._fleet.deadline

    def _expire(self, watch: JobWatch) -> None:
        now = self._clock.monotonic()
        if now < watch.deadline:
            return
        if watch.wants_history(now):
            self._recover(watch)
        self._say(watch.tick(self._clock.monotonic()))

    def _poll(self) -> None:
        self._looked = True
        for watch in self._fleet.open():
            self._look_at_record(watch)
        if self._all_jobs and self._records is not None:
            for record in self._records.appeared():
                if self._fleet.get(record.job_id) is None:
                    self._watch_record(record, from_start=True)

    def _look_at_record(self, watch: JobWatch) -> bool:
        """Read the record if it changed; tell whether it did."""
        if self._records is None or watch.job_id not in self._recorded:
            return False
        record = self._records.changed(watch.job_id)
        if record is None:
            return False
        self._say(watch.on_record(record, self._clock.monotonic()))
        return True

    def _recover(self, watch: JobWatch) -> None:
        past = []
        if self._records is not None and watch.job_id in self._recorded:
            past = self._records.history(watch.job_id, *watch.wanted_seqs)
        self._say(watch.on_history(past, self._clock.monotonic()))

    # Messages.

    def _take(self, incoming: Iterable[Incoming]) -> None:
        for item in incoming:
            if isinstance(item, Message):
                self._taken.append(item)
                self._message(item)
            elif isinstance(item, SessionLost):
                self._lines.append(Note("", f"{item.reason}; connecting again"))
            else:
                self._session_started(item)

    def _session_started(self, started: SessionStarted) -> None:
        """Look at every record: what happened without a session does not come over the wire."""
        for watch in self._fleet.open():
            self._look_at_record(watch)
            if not started.session_present and watch.wants_history(self._clock.monotonic(), at_once=True):
                self._recover(watch)

    def _message(self, message: Message) -> None:
        topic = message.topic
        address = self._addresses.get(topic)
        if address is None:
            address = self._topics.parse(topic)
            if address is None:
                self._judge_unwatched(message, None)
                return
            self._addresses[topic] = address
        watch = self._fleet.get(address.job_id)
        if watch is None:
            watch = self._unknown(address.job_id)
        if not message.payload:
            return  # a retained message was cleared (MQTT 3.1.1, 3.3.1.3): nothing is said
        if watch is None:
            if address.kind != "state":
                self._judge_unwatched(message, address)
        elif address.kind == "state":
            self._state(message, watch)
        else:
            self._judge(message, watch)

    def _unknown(self, job_id: str) -> JobWatch | None:
        """Find a job that was registered a moment ago, before the next look at the directory."""
        if not self._all_jobs or self._records is None or self._records.is_known(job_id):
            return None
        record = self._records.find(job_id)
        return None if record is None else self._watch_record(record, from_start=True)

    def _judge_unwatched(self, message: Message, address: TopicAddress | None) -> None:
        """Refuse a message of a job that is not watched, but for old ones of jobs that ended before."""
        record = None
        if address is not None and self._records is not None and self._records.is_known(address.job_id):
            record = self._records.find(address.job_id)
        view = None if record is None else _view_of(record)
        verdict = admit(self._topics, message.topic, message.payload, retained=message.retain, job=view)
        if isinstance(verdict, Accepted) or verdict.reason is Reason.LATE:
            return
        if message.retain and verdict.reason is Reason.UNKNOWN_JOB:
            return  # what a broker keeps of jobs that were removed here, or are another home's
        self._lines.append(Refusal("" if record is None else record.job_id, verdict.reason, verdict.why))

    def _judge(self, message: Message, watch: JobWatch) -> None:
        topic, payload, retain = message.topic, message.payload, message.retain
        view = watch.view
        verdict = admit(self._topics, topic, payload, retained=retain, job=view)
        if (
            isinstance(verdict, Rejected)
            and verdict.reason is Reason.BAD_SIGNATURE
            and watch.verdict is None
            and self._look_at_record(watch)
        ):
            # The key may have changed a moment ago: the new worker's first event is faster than our poll.
            verdict = admit(self._topics, topic, payload, retained=retain, job=view)
        if retain and isinstance(verdict, Rejected) and verdict.reason is Reason.DUPLICATE:
            return  # a broker sends what it retains again to every new session
        lines = watch.judged(verdict, self._clock.monotonic())
        self._lines += lines
        if isinstance(verdict, Accepted) and watch.verdict is not None:
            self._settle(lines)

    def _state(self, message: Message, watch: JobWatch) -> None:
        snapshot, unknown = None, False
        try:
            snapshot = decode_snapshot(message.payload, job_id=watch.job_id, token=watch.view.token)
        except UnknownStateError as error:
            self._lines.append(Refusal(watch.job_id, Reason.INVALID_FIELD, str(error)))
            unknown = True
        if snapshot is not None:
            self._say(watch.on_snapshot(snapshot, self._clock.monotonic()))
        looked = watch.verdict is None and self._look_at_record(watch)
        # A retained one may be of an earlier attempt, left behind by nobody's fault.
        if snapshot is None and not unknown and not looked and not message.retain:
            self._lines.append(
                Refusal(watch.job_id, Reason.BAD_SIGNATURE, "a state that the registry did not sign for us")
            )

    # Output.

    def _say(self, lines: list[Line]) -> None:
        if lines:
            self._lines += lines
            self._settle(lines)

    def _settle(self, lines: list[Line]) -> None:
        for line in lines:
            if isinstance(line, Verdict):
                self._fleet.settle(line)

    def _flush(self) -> list[Line]:
        lines, self._lines = self._lines, []
        return lines


def _view_of(record: JobRecord) -> JobView:
    """Return what can be known of a job that ended before the watch began."""
    return JobView(
        token=record.auth_token,
        status=record.status,
        attempt=record.attempt,
        last_seq=record.last_seq,
        attempt_seq=record.attempt_seq,
        joined_late=True,
    )


def run(watch: WatchLoop, on_line: Callable[[Line], None]) -> Verdicts:
    """Run the watch to its end and hand every line to `on_line`."""
    for batch in watch.batches():
        for line in batch:
            on_line(line)
    return watch.verdicts()
