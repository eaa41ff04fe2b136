"""The registry process, wired from its parts. The only place that picks them."""

import logging
import os
import threading
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from jobwire.core.clock import Clock
from jobwire.core.ports import SessionLost, SessionStarted, Transport
from jobwire.core.redaction import Redactor
from jobwire.core.settings import BrokerSettings
from jobwire.core.topics import Topics
from jobwire.delivery.connection import BrokerConnection
from jobwire.delivery.handover_server import HandOverServer
from jobwire.delivery.outbox import EXPIRY_SECONDS
from jobwire.jobs.record import REGISTRY, JobRecord
from jobwire.journal.consumers import Consumers
from jobwire.journal.reader import JournalReader
from jobwire.journal.recorder import Recorder
from jobwire.journal.retention import Retention
from jobwire.journal.writer import JournalWriter
from jobwire.registry.attention import AttentionHook
from jobwire.registry.duties import Duties
from jobwire.registry.folding import Folder
from jobwire.registry.purge import Purge, RetentionRules
from jobwire.registry.queue import JobQueue
from jobwire.registry.relay import Relay
from jobwire.registry.states import StateQueue, Urgency
from jobwire.registry.store import RecordStore
from jobwire.registry.telling import Teller
from jobwire.registry.told import FILE, Told
from jobwire.registry.upkeep import Announcements, Periodic, Reaper
from jobwire.registry.views import Views
from jobwire.registry.wire import GapRepair, WireAdmission

# Signs of life may stand in line at the broker when we come (back): they go first.
_GRACE_SECONDS = 10.0
_TELL_SECONDS = 600.0
_MOST_TOLD = 1000
# Jobs that cannot be folded, named in the health file.
_NAMED = 20
_HOUR = 3600.0
_log = logging.getLogger("jobwire.registry")


class Connections(NamedTuple):
    """How to reach the broker: a transport with a persistent session, and one for sending.

    `shared` where our identity allows one connection only (a client certificate): then there is none
    for sending.
    """

    broker: BrokerSettings
    recording: Callable[[], Transport]
    sending: Callable[[], Transport]
    shared: bool = False


class Assembly:
    """Everything that works on one home; `close` frees what was opened here (not the writer)."""

    def __init__(
        self,
        writer: JournalWriter,
        *,
        store: RecordStore,
        connections: Connections,
        rules: RetentionRules,
        on_attention: Sequence[str] = (),
    ) -> None:
        self._clock = clock = store.clock
        self.duties = Duties(clock)
        self.journaled = threading.Event()
        topics = Topics(connections.broker.topic_root)
        self.transport = connections.recording()
        sending = (lambda: self.transport) if connections.shared else connections.sending
        self.sender = BrokerConnection(connect=sending, clock=clock, owned=not connections.shared)
        self.queue = JobQueue(store, warn=_seldom(_log.warning, clock))
        self.views = Views(store)
        self.reader = JournalReader(writer.directory, clock=clock)
        redactor = Redactor(os.environ)
        self.attention = AttentionHook(store, on_attention, environ=os.environ)
        self.states = StateQueue(
            store=store,
            topics=topics,
            sender=self.sender,
            expiry_seconds=EXPIRY_SECONDS,
            redactor=redactor,
            on_record=self.attention.look,
        )
        self.told = Told(store.queue_path(FILE))
        self.teller = Teller(
            store=store,
            told=self.told,
            topics=topics,
            append=writer.append,
            redactor=redactor,
            on_journaled=self.journaled.set,
        )
        self.folder = Folder(
            store=store,
            views=self.views,
            topics=topics,
            reader=self.reader,
            durable_offset=lambda: writer.next_offset,
            consumers=Consumers(writer.directory, clock=clock),
            journal=writer.append,
            on_folded=self._on_folded,
            is_awaited=lambda job_id: self.handover.is_awaited(job_id),  # noqa: PLW0108 - made below
            told=self.told,
        )
        self.repair = GapRepair(
            store=store, views=self.views, topics=topics, writer=writer, on_journaled=self.journaled.set
        )
        self.recorder = Recorder(
            transport=self.transport,
            writer=writer,
            admit=WireAdmission(topics=topics, views=self.views),
            filters=[topics.events("+")],
            clock=clock,
            on_durable=lambda _: self.journaled.set(),
            on_gap=self.repair,
            on_session=self._on_session,
        )
        self.announcements = Announcements(
            queue=self.queue, states=self.states, on_change=self.teller.changed
        )
        self.reaper = Reaper(
            queue=self.queue,
            complete_until=self._complete_until,
            put_off=self.folder.put_off,
            grace_seconds=_GRACE_SECONDS,
        )
        self.relay = Relay(
            store=store,
            topics=topics,
            connection=self.sender,
            expiry_seconds=EXPIRY_SECONDS,
        )
        self.handover = HandOverServer(broker=connections.broker, send=self.relay.send, clock=clock)
        self.purge = Purge(
            queue=self.queue,
            topics=topics,
            clear=lambda topic: self.sender.publish(topic, b"", retain=True),
            send=lambda topic, payload: self.sender.publish(topic, payload, retain=False),
            rules=rules,
            by=REGISTRY,
        )
        self.retention = Retention(writer.directory, clock=clock, limits=rules.journal)
        self._counts: dict[str, int] = {}
        self._fold_progress = (0, clock.monotonic())

    def upkeep(self) -> list[Periodic]:
        """Return what is done by the clock, each to be run in a thread of its own."""
        duties: list[tuple[str, str, Callable[[Callable[[], bool]], object], float]] = [
            ("announcer", "taking marks in", lambda _: self.announcements.run(), 0.1),
            ("repeater", "queueing all states", lambda _: self.announcements.repeat(), 0.1),
            ("committer", "committing the fold's place", lambda _: self.folder.commit(), 0.5),
            ("teller", "journaling facts", self.teller.run, 0.1),
            ("reaper", "reaping", lambda _: self.reaper.run(), 1.0),
            ("flusher", "sending from outboxes", self.relay.run, 2.0),
            ("purger", "purging", self.purge.run, _HOUR),
            ("pruner", "pruning the journal", lambda _: self.retention.prune(), _HOUR),
            ("counter", "counting jobs", lambda _: self._count_jobs(), 10.0),
        ]
        return [
            Periodic(name, work, doing=doing, seconds=seconds, clock=self._clock)
            for name, doing, work, seconds in duties
        ]

    def facts(self) -> dict[str, object]:
        """Return the figures for the health file."""
        progress = self.recorder.progress()
        folded = self.folder.offset
        lag = progress.durable_offset - folded
        put_off = self.folder.put_off()
        return {
            "pid": os.getpid(),
            "connected": progress.connected,
            "offset": folded,
            "durable_offset": progress.durable_offset,
            "lag": lag,
            "lag_seconds": self._behind_seconds(folded, lag),
            "stalled": progress.stalled_since is not None or self.folder.stalled,
            "jobs": self._counts,
            "put_off": {"count": len(put_off), "jobs": dict(islice(put_off.items(), _NAMED))},
            "verdicts": progress.verdicts,
            "suppressed": progress.suppressed,
            "reconnects": progress.reconnects,
            "folded": self.folder.folded,
            "facts": self.teller.told,
            "states": {"published": self.states.published, "waiting": self.states.waiting()},
            "reaped": self.reaper.reaped,
            "flushed": self.relay.sent,
            "outboxes": self.relay.facts(),
            "handover": self.handover.facts(),
            "known_jobs": len(self.views),
            "duties": {
                name: {**report._asdict(), "seconds": round(report.seconds, 1), "stuck": report.stuck}
                for name, report in self.duties.reports().items()
            },
        }

    def close(self) -> None:
        """Disconnect and close."""
        self.attention.close()
        self.folder.close()
        self.handover.close()
        self.sender.close()
        self.transport.close()
        self.reader.close()
        self.told.close()
        self.queue.close()

    def _on_folded(self, job_id: str, record: JobRecord | None, urgent: bool) -> None:
        if record is not None:
            self.handover.confirmed(job_id, record.confirmed_seq)
        self.states.offer(job_id, record, Urgency.STATUS if urgent else Urgency.PROGRESS)

    def _complete_until(self) -> float | None:
        stalled = self.recorder.progress().stalled_since is not None
        return None if stalled else self.folder.complete_until()

    def _on_session(self, event: SessionStarted | SessionLost) -> None:
        if isinstance(event, SessionLost):
            self.reaper.broker_lost()
            self.handover.broker_lost()
        else:
            self.reaper.broker_found()
            self.handover.broker_found()
            # Perhaps the broker was killed: then what we retained lately is lost, acknowledged or not, also
            # where it has our session from an older save.
            self.announcements.wanted.set()

    def _behind_seconds(self, folded: int, lag: int) -> float:
        """Return for how long the fold has been behind without moving on; from one thread."""
        now = self._clock.monotonic()
        if not lag or folded != self._fold_progress[0]:
            self._fold_progress = (folded, now)
        return round(now - self._fold_progress[1], 1)

    def _count_jobs(self) -> None:
        self._counts = self.queue.counts()


def _seldom(warn: Callable[[str], None], clock: Clock) -> Callable[[str], None]:
    """Return `warn` for those that look at the same unreadable job again and again: the same words seldom."""
    told: dict[str, float] = {}

    def tell(text: str) -> None:
        now = clock.monotonic()
        if now - told.get(text, float("-inf")) < _TELL_SECONDS:
            return
        if len(told) >= _MOST_TOLD:
            told.clear()
        told[text] = now
        warn(text)

    return tell
