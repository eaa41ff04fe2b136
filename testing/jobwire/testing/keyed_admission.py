"""Admission for a recorder without a registry: the one rule, asked about jobs whose keys are given."""

from typing import Protocol

from jobwire.core.ports import Message
from jobwire.core.topics import Topics
from jobwire.jobs.admission import ACCEPTED, Accepted, JobView, Reason, Rejected, digest_of, judge, parse
from jobwire.journal.admission import Judged
from jobwire.journal.entry import Stored


class JobViews(Protocol):
    """What is known of each job; the registry's side of admission."""

    def view(self, job_id: str) -> JobView | None:
        """Return the job's view, the same object each time, or None for an unknown job.

        The view must follow the record: a claim changes the key. Admission notes what it accepts in
        the view, so after a start it must already know what the journal holds (last seq at least;
        with the digests a redelivery is a `duplicate`, without them it is `replayed`: both refused).
        """
        ...


class Admission:
    """Judges messages by the one rule and notes them in their job's view."""

    def __init__(self, *, topics: Topics, views: JobViews) -> None:
        self._topics = topics
        self._views = views

    def __call__(self, message: Message) -> Judged:
        """Return the verdict; each message is to be asked about once."""
        parsed = parse(self._topics, message.topic, message.payload)
        if isinstance(parsed, Rejected):
            return Judged(parsed.reason, parsed.why)
        view = self._views.view(parsed.job_id)
        verdict = judge(parsed, message.payload, retained=message.retain, job=view)
        if isinstance(verdict, Accepted) and view is not None:
            return self._accepted(verdict, view)
        if not isinstance(verdict, Rejected):
            raise AssertionError("accepted without a job")  # noqa: TRY004 - judge refuses an unknown job
        if verdict.reason is Reason.LATE and verdict.event is not None and view is not None:
            view.remember(verdict.event.seq, verdict.digest)
            return Judged(verdict.reason, verdict.why, verdict.event, keep=True)
        return Judged(verdict.reason, verdict.why, verdict.event)

    def replay(self, row: Stored) -> None:
        """Note in its job's view what the journal holds already; for the start, in offset order.

        Then a redelivery of what was recorded before a kill is a `duplicate`, also where the record
        was not yet written. Events that the view knows are only remembered.
        """
        if row.verdict not in {ACCEPTED, Reason.LATE}:
            return
        parsed = parse(self._topics, row.topic, row.payload)
        view = None if isinstance(parsed, Rejected) else self._views.view(parsed.job_id)
        if isinstance(parsed, Rejected) or view is None:
            return
        digest = digest_of(row.payload)
        if row.verdict == ACCEPTED and parsed.event.seq > view.last_seq:
            view.accept(Accepted(parsed.event, digest))
        else:
            view.remember(parsed.event.seq, digest)

    @staticmethod
    def _accepted(verdict: Accepted, view: JobView) -> Judged:
        seq, last = verdict.event.seq, view.last_seq
        known_before = last > 0 or not view.joined_late
        missing = range(last + 1, seq) if known_before else range(0)
        view.accept(verdict)
        return Judged(ACCEPTED, "", verdict.event, keep=True, missing=missing)
