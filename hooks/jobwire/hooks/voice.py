"""How a hook speaks for its job: what it says is kept on the disk, and mentioned to the registry process.

It waits for the disk and for no broker: an agent stands still meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.core.clock import epoch
from jobwire.core.redaction import Redactor
from jobwire.delivery.signing import Draft
from jobwire.jobs.event import MAX_DETAIL
from jobwire.jobs.request_form import RESOLVED, RequestKind
from jobwire.publisher.build import open_event_log, open_handover
from jobwire.publisher.cleaning import clean
from jobwire.registry.event_log import HomeEventLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jobwire.core.clock import Clock
    from jobwire.jobs.record import JobRecord
    from jobwire.jobs.requests import Request

# Ours are asked about a call of a tool, or at the end of a turn; a question of `jobwire ask` is not ours.
_OURS = frozenset({RequestKind.TURN_END, RequestKind.ERROR})


class Voice:
    """Speaks for one job of a home. Raises as `EventLog` where the job is not ours, or has ended."""

    def __init__(
        self, home: str, job_id: str, *, attempt: int | None, environ: Mapping[str, str], clock: Clock
    ) -> None:
        log = open_event_log(
            job_id=job_id, ticket=None, home=home, attempt=attempt, clock=clock, environ=environ
        )
        assert isinstance(log, HomeEventLog)  # noqa: S101 - without a ticket it is
        self._events = log
        self._environ = environ
        self._clock = clock
        self.home = home
        self.job_id = job_id
        self.folder = self._events.outbox.path.rpartition("/")[0]

    def record(self) -> JobRecord:
        """Return the job as it is now."""
        return self._events.record()

    def say(self, event: str, detail: str, data: Mapping[str, object] | None = None) -> None:
        """Keep an event durably, and have the registry process send it where one runs."""
        redactor = Redactor(self._environ)
        # Cut last: half a secret would not be found.
        line = redactor.redact(" ".join(detail.split()))[:MAX_DETAIL]
        draft = clean(Draft(event, line, data or {}), redactor).draft
        entry = self._events.append(draft)
        handover = open_handover(self._events, command_line={}, environ=self._environ, clock=self._clock)
        if handover is not None:
            handover.mention(self.job_id, entry.seq)

    def close_requests(self, requests: Iterable[Request], why: str) -> None:
        """Say that these were settled where the agent runs."""
        names = [one.id for one in requests]
        if names:
            self.say("progress", why, {RESOLVED: names})

    def seconds_silent(self, record: JobRecord) -> float:
        """Return for how long nothing was heard of the job."""
        return self._clock.now() - epoch(record.idle_since) if record.idle_since else float("inf")


def ours(record: JobRecord, digest: str = "") -> list[Request]:
    """Return the unsettled requests that hooks asked: those about one call, or all."""
    found = [one for one in record.requests if one.named and not one.settled]
    if digest:
        return [one for one in found if one.digest == digest]
    return [one for one in found if one.digest is not None or one.kind in _OURS]
