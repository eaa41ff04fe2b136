"""The parts of the registry process, wired. The only place that picks them."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from jobwire.core.clock import Clock
from jobwire.core.errors import JobwireError
from jobwire.core.ports import SessionLost, SessionStarted, Transport
from jobwire.core.redaction import Redactor
from jobwire.core.topics import Topics
from jobwire.journal import JournalReader, JournalWriter
from jobwire.journal.consumers import Consumers
from jobwire.journal.recorder import Recorder
from jobwire.journal.retention import Retention
from jobwire.registry.flush import OutboxFlush
from jobwire.registry.folding import Folder
from jobwire.registry.purge import Purge, Rules
from jobwire.registry.queue import JobQueue
from jobwire.registry.sender import Sender
from jobwire.registry.states import StateQueue, Urgency
from jobwire.registry.store import RecordStore
from jobwire.registry.upkeep import Announcements, Reaper, Upkeep
from jobwire.registry.views import Views
from jobwire.registry.wire import GapRepair, WireAdmission

RETAINED_SECONDS = 7 * 86400
# Signs of life may stand in line at the broker when we come (back): they go first.
_GRACE_SECONDS = 10.0
_COUNT_SECONDS = 10.0


class Connections(NamedTuple):
    """How to reach the broker: a transport with a persistent session, and one for sending.

    `shared` where our identity allows one connection only (a client certificate): then there is none
    for sending.
    """

    topic_root: str
    recording: Callable[[], Transport]
    sending: Callable[[], Transport]
    shared: bool = False


class Parts:
    """Everything that works on one home; `close` frees what was opened here (not the writer)."""

    def __init__(
        self,
        *,
        store: RecordStore,
        connections: Connections,
        clock: Clock,
        rules: Rules,
        writer: JournalWriter,
        stop: Callable[[], bool],
        warn: Callable[[str], None],
    ) -> None:
        self._clock = clock
        self._writer = writer
        self.journaled = threading.Event()
        topics = Topics(connections.topic_root)
        self.transport = connections.recording()
        sending = (lambda: self.transport) if connections.shared else connections.sending
        self.sender = Sender(connect=sending, clock=clock, owned=not connections.shared)
        self.queue = JobQueue(store, warn=warn)
        self.views = Views(store, warn=warn)
        self.reader = JournalReader(writer.directory, clock=clock)
        self.states = StateQueue(
            store=store,
            topics=topics,
            sender=self.sender,
            clock=clock,
            expiry_seconds=RETAINED_SECONDS,
            redactor=Redactor(os.environ),
        )
        self.folder = Folder(
            store=store,
            views=self.views,
            topics=topics,
            reader=self.reader,
            durable_offset=lambda: writer.next_offset,
            consumers=Consumers(writer.directory, clock=clock),
            clock=clock,
            on_folded=lambda job_id, record, urgent: self.states.offer(
                job_id, record, Urgency.STATUS if urgent else Urgency.PROGRESS
            ),
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
        self.announcements = Announcements(queue=self.queue, states=self.states)
        self.reaper = Reaper(
            queue=self.queue, complete_until=self._complete_until, clock=clock, grace_seconds=_GRACE_SECONDS
        )
        self.flush = OutboxFlush(
            store=store, topics=topics, sender=self.sender, expiry_seconds=RETAINED_SECONDS
        )
        self.upkeep = Upkeep(
            announcements=self.announcements,
            reaper=self.reaper,
            flush=self.flush,
            purge=Purge(
                queue=self.queue,
                topics=topics,
                clear=lambda topic: self.sender.publish(topic, b"", retain=True),
                rules=rules,
            ),
            retention=Retention(writer.directory, clock=clock, limits=rules.journal),
            stop=stop,
            clock=clock,
        )
        self._counts: dict[str, int] = {}
        self._counted_at = float("-inf")

    def facts(self) -> dict[str, object]:
        """Return the figures for the health file."""
        progress = self.recorder.progress()
        folded = self.folder.offset
        return {
            "pid": os.getpid(),
            "connected": progress.connected,
            "offset": folded,
            "durable_offset": progress.durable_offset,
            "lag": progress.durable_offset - folded,
            "stalled": progress.stalled_since is not None,
            "jobs": self._count_jobs(),
            "verdicts": progress.verdicts,
            "suppressed": progress.suppressed,
            "reconnects": progress.reconnects,
            "folded": self.folder.folded,
            "states": {"published": self.states.published, "waiting": self.states.waiting()},
            "reaped": self.reaper.reaped,
            "flushed": self.flush.sent,
            "known_jobs": len(self.views),
        }

    def close(self) -> None:
        """Disconnect and close."""
        self.folder.close()
        self.sender.close()
        self.transport.close()
        self.reader.close()
        self.queue.close()

    def _complete_until(self) -> float | None:
        stalled = self.recorder.progress().stalled_since is not None
        return None if stalled else self.folder.complete_until()

    def _on_session(self, event: SessionStarted | SessionLost) -> None:
        if isinstance(event, SessionLost):
            self.reaper.broker_lost()
        else:
            self.reaper.broker_found()
            # Perhaps the broker was killed: then what we retained lately is lost, acknowledged or not, also
            # where it has our session from an older save.
            self.announcements.wanted.set()

    def _count_jobs(self) -> dict[str, int]:
        if self._clock.monotonic() - self._counted_at >= _COUNT_SECONDS:
            try:
                self._counts = self.queue.counts()
            except JobwireError:
                return self._counts  # the queue is busy: next time
            self._counted_at = self._clock.monotonic()
        return self._counts


def journal_path(store: RecordStore) -> Path:
    """Return where the home's journal is."""
    return Path(store.home) / "journal"
