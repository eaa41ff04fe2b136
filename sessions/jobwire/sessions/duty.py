"""What sessions need of the registry process: looked at, leases renewed, agents told of messages."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from jobwire.coordination.sessions.states import SessionState
from jobwire.coordination.tables import FILE
from jobwire.core.errors import JobwireError
from jobwire.core.terminal_text import safe
from jobwire.registry.upkeep import Periodic
from jobwire.runner.tmux import Tmux
from jobwire.sessions.known_agents import InstructionsBy
from jobwire.sessions.opening import agent_of
from jobwire.sessions.panes import NotNow, find_pane
from jobwire.sessions.reconciling import Reconciler
from jobwire.sessions.sending import DEFERRED, Sender

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from jobwire.coordination.sessions.stored import SessionRow
    from jobwire.core.clock import Clock
    from jobwire.registry.duties import Duty

# An orphan is found within five seconds.
LOOK_SECONDS = 2.0
# A lease is renewed long before it runs out (300 s).
_RENEW_SECONDS = 60.0
# An agent's own hooks tell it of a message first: it is told in its pane once it was silent for so long.
_SILENT_SECONDS = 10.0
_AGAIN_SECONDS = 30.0
_log = logging.getLogger("jobwire.sessions")


class SessionKeeper:
    """Looks after the sessions of a home, in the registry process."""

    name = "sessions"

    def __init__(self, home: str, clock: Clock) -> None:
        self._home = home
        self._clock = clock
        self._reconciler = Reconciler(home)
        self._sender = Sender(home)
        self._renewed_at = float("-inf")
        # Agent and delivery -> when it may be tried again.
        self._deferred: dict[tuple[str, int], float] = {}
        self.findings = 0
        self.nudges = 0

    def run(self, duty: Duty, stop: threading.Event) -> None:
        """Look until `stop` is set."""
        periodic = Periodic(
            self.name,
            self.step,
            doing="looking at sessions",
            seconds=LOOK_SECONDS,
            clock=self._clock,
            first_seconds=0.0,
        )
        periodic.run(duty, stop)
        self._reconciler.inventory.store.close()

    def step(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Look once. Raises StorageError, ConfigError."""
        if not os.path.exists(os.path.join(self._home, FILE)):
            return
        now = self._clock.monotonic()
        self._deferred = {one: until for one, until in self._deferred.items() if until > now}
        if now - self._renewed_at >= _RENEW_SECONDS:
            self._renewed_at = now
            self._reconciler.renew()
        for carried in self._reconciler.run():
            self.findings += 1
            level = logging.INFO if carried.done else logging.WARNING
            _log.log(
                level, "session %s: %s %s", carried.finding.session, safe(carried.finding.text), carried.error
            )
        for row in self._reconciler.inventory.rows(SessionState.RUNNING):
            if not stop():
                self._nudge(row, now)

    def facts(self) -> dict[str, object]:
        """Return the figures for the health file."""
        return {"findings": self.findings, "nudges": self.nudges}

    def _nudge(self, row: SessionRow, now: float) -> None:
        """Tell an idle agent of a message that it has not read, once."""
        inventory = self._reconciler.inventory
        seq = inventory.first_untold(row.agent_id) if row.pane and row.agent_id else None
        if seq is None or self._deferred.get((row.agent_id, seq), 0.0) > now:
            return
        self._deferred[row.agent_id, seq] = now + _AGAIN_SECONDS
        try:
            if agent_of(row).delivery not in {InstructionsBy.PASTE, InstructionsBy.LINE} or row.opener:
                return
            seen = find_pane(Tmux.at(row.socket), row)
            if isinstance(seen, NotNow) or self._clock.now() - seen.activity < _SILENT_SECONDS:
                self._deferred[row.agent_id, seq] = now + _SILENT_SECONDS
                return
            sent = self._sender.nudge(row.name, row.agent_id, seq)
        except JobwireError as error:
            _log.warning("session %s: %s", row.name, error)
            return
        self.nudges += sent.word != DEFERRED
        _log.info(
            "session %s: message %d for %s: %s %s", row.name, seq, row.agent_id, sent.word, safe(sent.detail)
        )
