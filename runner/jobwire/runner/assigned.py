"""The worker of a delivery: its last word is the receipt, kept with the job's end and the delivery's.

Everything before that is said as by any worker: `started`, progress, what it asks. Nothing is sent from here:
the registry process of the home is told, and takes it from the disk.
"""

import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from jobwire.coordination import replying
from jobwire.coordination.delivery_lease import DeliveryLease
from jobwire.coordination.handling.assignment import STOPPED
from jobwire.coordination.handling.tries import Handled
from jobwire.coordination.lease_file import LeaseToken
from jobwire.coordination.message import NewMessage
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.work import ThreadWork
from jobwire.core.clock import Clock
from jobwire.core.errors import ConflictError, InvalidInputError
from jobwire.core.redaction import Redactor
from jobwire.jobs.event import TERMINAL_EVENTS
from jobwire.publisher import Publisher
from jobwire.runner.accepting import Accepting, report_of
from jobwire.runner.exit_status import ExitStatus
from jobwire.runner.last_words import last_words
from jobwire.runner.output_log import OUTPUT_FILE
from jobwire.runner.worker import CommandResult, Worker

_log = logging.getLogger("jobwire.autopilot")


class Errand(NamedTuple):
    """What a worker is told of the delivery that its command handles."""

    agent: str
    incarnation: str
    db: str
    thread_id: str
    token: str
    handled: Handled
    delivery_token: int
    lease_seconds: float
    receipt: str
    answers: str = ""
    accept: tuple[str, ...] = ()
    accept_seconds: float = 0.0
    unverified: int = 0

    @classmethod
    def of_json(cls, body: Mapping[str, object]) -> "Errand":
        """Return what went through JSON."""
        values = dict(body)
        handled = Handled.of_json(values["handled"])  # type: ignore[arg-type]
        lines: list[str] = values["accept"]  # type: ignore[assignment]
        return cls(**{**values, "handled": handled, "accept": tuple(lines)})  # type: ignore[arg-type]


class AssignedWork:
    """Says what happens to the command of an errand: the part of a Publisher that a Reporter needs."""

    def __init__(
        self,
        publisher: Publisher,
        errand: Errand,
        *,
        attempt: int,
        home: str,
        folder: Path,
        environ: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self._publisher = publisher
        self._errand = errand
        self._folder = folder
        self._redactor = Redactor(environ)
        self._store = CoordinationStore(home, path=errand.db or None, clock=clock)
        self._work = ThreadWork(
            self._store, errand.agent, incarnation=errand.incarnation, environ=environ, keeps_leases=False
        )
        self._token = LeaseToken(publisher.job_id, attempt)
        self._seq = 0
        self._accepting = Accepting(
            errand.accept, log=folder / OUTPUT_FILE, seconds=errand.accept_seconds, clock=clock
        )
        self._worker: Worker | None = None
        self._stopped: Callable[[], bool] = lambda: False

    def keep(self, event: str, detail: str = "", data: Mapping[str, object] | None = None) -> object:
        """Keep an event durably; a terminal one with the receipt, and what becomes of the delivery."""
        if event not in TERMINAL_EVENTS:
            published = self._publisher.keep(event, detail, data)
            self._seq = published.seq
            return published
        good = event == "completed"
        if not good and self._stopped():
            # It was ended for our sake, and that is no failure of it.
            self._work.give_back(self._token, STOPPED)
            return None
        return self._finish(good, detail, data or {})

    def send(self) -> None:
        """Tell the registry process, where one runs, that there is something to send."""
        if self._seq:
            self._work.mention(self._publisher.job_id, self._seq)

    def close(self) -> None:
        """Let go of everything."""
        self._publisher.close()
        self._store.close()

    def _finish(self, good: bool, detail: str, data: Mapping[str, object]) -> object:
        errand = self._errand
        words = last_words(Path(errand.receipt), self._folder / OUTPUT_FILE)
        accepted = report_of(self._accepting.found)
        if errand.unverified:
            accepted += f"\nNot run: {errand.unverified} lines that your list does not allow."
        permanent = self._worker is not None and self._worker.never_began
        payload = {
            "job_id": self._publisher.job_id,
            **data,
            **({"verified": [one.to_json() for one in self._accepting.found]} if errand.accept else {}),
        }
        new = NewMessage(
            errand.agent,
            type="receipt",
            summary=self._redactor.mask_secrets((words.summary or detail) if good else detail)[:1024],
            body=self._redactor.mask_secrets("\n\n".join(filter(None, (words.text, accepted.strip())))),
            payload=json.dumps(payload, ensure_ascii=False),
            thread_id=errand.thread_id,
        )
        if good and errand.answers:
            self._answer(new)
        figures = {**data, **({"permanent": True} if permanent else {})}
        handled = errand.handled._replace(permanent=permanent)
        return self._work.finish(new, good=good, token=errand.token, handled=handled, data=figures)

    def _answer(self, new: NewMessage) -> None:
        """Answer the question, before the job ends: where this is killed in between it is answered once."""
        answer = new._replace(
            kind="answer",
            type="answer",
            id=f"an-{self._errand.token}",
            payload=None,
            thread_id=None,
            in_reply_to=self._errand.answers,
        )
        try:
            replying.reply(self._store, answer)
        except (ConflictError, InvalidInputError) as error:
            _log.warning("the question is not answered: %s", error.message)

    def check(self, stop: Callable[[], bool]) -> CommandResult | None:
        """Run what the work is accepted by; return the worker's result where it is not."""
        if self._accepting.run(stop):
            return None
        last = self._accepting.found[-1]
        return CommandResult(
            ExitStatus(exit_status=0), f"not accepted: {last.line}: {last.ending}", refused=True
        )

    @contextlib.contextmanager
    def holding(self, worker: Worker, stopped: Callable[[], bool]) -> Iterator[None]:
        """Keep the delivery's lease while `worker` works; `stopped` tells whether it was asked to end."""
        self._worker, self._stopped = worker, stopped
        errand = self._errand
        lease = DeliveryLease(
            self._store,
            errand.handled.agent,
            errand.handled.seq,
            token=errand.delivery_token,
            seconds=errand.lease_seconds,
        )
        try:
            yield
        finally:
            lease.end()
