"""Signs of life on a thread of its own: the work may block for as long as it likes.

with Heartbeat("builder", home) as heartbeat:
heartbeat.update("working", task="T7", progress=0.4)
"""

from __future__ import annotations

import logging
import os
import select
import threading
from typing import Protocol, Self

from jobwire.coordination import agents
from jobwire.coordination.agents import Beat, Joining, check_beat, check_interval
from jobwire.coordination.liveness import DEFAULT_INTERVAL_SECONDS, AgentStatus
from jobwire.coordination.store import CoordinationStore
from jobwire.core.errors import JobwireError, NotFoundError

# A status that changes a thousand times a second is written twice.
_APART_SECONDS = 0.5
_END_SECONDS = 5.0
_log = logging.getLogger("jobwire.agent")


class Pulse(Protocol):
    """Where signs of life go: the store on this disk, or the wire."""

    def join(self, agent: str, joining: Joining) -> object:
        """Begin a life of the agent."""
        ...

    def beat(self, agent: str, said: Beat) -> None:
        """Give one sign of life. Raises JobwireError."""
        ...


class StorePulse:
    """Writes signs of life into the store; each thread through a connection of its own.

    With `incarnation` they are signs of that life of an agent.
    """

    def __init__(self, store: CoordinationStore, *, incarnation: str = "") -> None:
        self._store = store
        self._incarnation = incarnation

    def join(self, agent: str, joining: Joining) -> object:
        """Begin the agent's next life in the store."""
        if self._incarnation:
            joining = joining._replace(incarnation=self._incarnation)
        with self._store.changing() as change:
            return agents.resume(change, agent, joining)

    def beat(self, agent: str, said: Beat) -> None:
        """Write one sign of life; an agent that nobody knows joins."""
        try:
            with self._store.changing() as change:
                agents.beat(change, agent, said)
        except NotFoundError:
            self.join(agent, Joining(status=said.status))


class Heartbeat:
    """Beats for `agent` each interval from `start` to `stop`; the latest status wins and is told at once.

    `home` is a home directory or a Pulse. A beat that fails is logged once and tried again an interval
    later: it never ends the thread, nor the work. Any thread may call any method.
    """

    def __init__(
        self,
        agent: str,
        home: str | os.PathLike[str] | Pulse,
        *,
        interval_seconds: float = DEFAULT_INTERVAL_SECONDS,
        status: str = AgentStatus.IDLE,
    ) -> None:
        check_interval(interval_seconds)
        self.agent = agent
        self.interval_seconds = interval_seconds
        self._pulse: Pulse = (
            StorePulse(CoordinationStore(os.fspath(home))) if isinstance(home, str | os.PathLike) else home
        )
        self._said = self._taken = check_beat(Beat(status))
        self._changed = threading.Condition()
        self._stopping = False
        self._failing = False
        self._thread = threading.Thread(target=self._run, name=f"heartbeat of {agent}", daemon=True)

    def start(self) -> Self:
        """Join, and beat from now on. Raises JobwireError where joining fails."""
        self._pulse.join(
            self.agent,
            Joining(pid=os.getpid(), interval_seconds=self.interval_seconds, status=self._said.status),
        )
        self._thread.start()
        return self

    def update(self, status: str, *, task: str | None = None, progress: float | None = None) -> None:
        """Say what the agent does now; returns at once. Raises InvalidInputError."""
        said = check_beat(Beat(status, task, progress))
        with self._changed:
            self._said = said
            self._changed.notify()

    def stop(self, status: str = AgentStatus.STOPPED) -> None:
        """Say `status` and end the thread, waiting five seconds for it at most; again is no error."""
        with self._changed:
            if not self._stopping:
                self._said = check_beat(self._said._replace(status=status))
            self._stopping = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(_END_SECONDS)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._taken, stopping = self._said, self._stopping
            told = self._beat(self._taken)
            if stopping:
                return
            pause = min(_APART_SECONDS, self.interval_seconds) if told else self.interval_seconds
            with self._changed:
                self._changed.wait_for(lambda: self._stopping, pause)
                self._changed.wait_for(self._has_news, self.interval_seconds - pause)

    def _has_news(self) -> bool:
        return self._stopping or self._said != self._taken

    def _beat(self, said: Beat) -> bool:
        try:
            self._pulse.beat(self.agent, said)
        except JobwireError as error:
            if not self._failing:
                _log.warning("no sign of life of %s could be given: %s", self.agent, error)
            self._failing = True
        else:
            self._failing = False
        return not self._failing


def beat_while(pid: int, heartbeat: Heartbeat) -> None:
    """Beat as long as process `pid` lives. Raises NotFoundError where there is none.

    Held by a descriptor (pidfd_open(2)), so that a new process with the same number is not taken for it.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except OSError as error:
        raise NotFoundError(f"there is no process {pid}: {error.strerror}", hint="is it running?") from error
    try:
        with heartbeat:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            poll.poll()
    finally:
        os.close(descriptor)
