"""Somebody who reads one job's events at a real broker and judges them like every consumer."""

from jobwire.core.ports import Message, SessionStarted
from jobwire.core.topics import Topics
from jobwire.jobs.admission import Accepted, JobView, Rejected, admit
from jobwire.jobs.record import JobRecord
from jobwire.testing.process import BrokerProcess
from jobwire.testing.waiting import wait_for
from jobwire.transport import PahoTransport

_DEADLINE_SECONDS = 60.0


class EventReader:
    """Reads as the role `hermes` in a persistent session; `late` for one that comes when events were said.

    `messages` has what arrived, `accepted` and `rejected` what became of it, `sessions` how often the
    connection was established.
    """

    def __init__(self, server: BrokerProcess, record: JobRecord, *, late: bool = False) -> None:
        settings = server.settings("hermes")
        self._topics = Topics(settings.topic_root)
        self._view = JobView(token=record.auth_token, joined_late=late)
        self.topic = self._topics.events(record.job_id)
        self.messages: list[Message] = []
        self.accepted: list[Accepted] = []
        self.rejected: list[Rejected] = []
        self.sessions = 0
        self._transport = PahoTransport(
            settings, client_id=f"read-{record.job_id}-{late}", clean_session=False
        )
        self._transport.subscribe([self.topic])
        self._transport.connect(10)

    def seqs(self) -> list[int]:
        """Take in what has arrived; return the seqs of the accepted events so far, in order of arrival."""
        for item in self._transport.receive_many(100, 0.05):
            if isinstance(item, Message):
                self._take(item)
            elif isinstance(item, SessionStarted):
                self.sessions += 1
        return [item.event.seq for item in self.accepted]

    def wait_for_seq(self, seq: int) -> list[int]:
        """Return the accepted seqs once `seq` is among them."""
        wait_for(lambda: seq in self.seqs(), deadline_seconds=_DEADLINE_SECONDS, what=f"event {seq}")
        return self.seqs()

    def wait_for_sessions(self, count: int) -> None:
        """Return once the connection was established `count` times."""

        def established() -> bool:
            self.seqs()
            return self.sessions >= count

        wait_for(established, deadline_seconds=_DEADLINE_SECONDS, what="a reconnect")

    def close(self) -> None:
        """Disconnect."""
        self._transport.close()

    def _take(self, message: Message) -> None:
        self.messages.append(message)
        self._transport.acknowledge(message)
        verdict = admit(self._topics, message.topic, message.payload, retained=message.retain, job=self._view)
        if isinstance(verdict, Accepted):
            self._view.accept(verdict)
            self.accepted.append(verdict)
        else:
            self.rejected.append(verdict)
