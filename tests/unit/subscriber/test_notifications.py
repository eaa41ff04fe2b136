"""What a person wants to be notified of, each once."""

import pytest

from jobwire.core.errors import InvalidInputError
from jobwire.core.signature import new_token
from jobwire.jobs.event import Event
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord, Timeouts
from jobwire.subscriber.notifications import JobCondition, Notification, Notifications, hook_words
from jobwire.subscriber.outcome import EventLine, Note, Outcome, Verdict
from jobwire.subscriber.watch import JobWatch

JOB = "0000abcd"
STAMP = "2026-01-02T03:04:05.678Z"


def line(kind: str, detail: str = "", *, late: bool = False) -> EventLine:
    """Return an event as it is said."""
    return EventLine(Event(1, JOB, kind, STAMP, detail, {}), late=late)


def stands(*, started: bool = False, attention: bool = False, detail: str = "") -> JobCondition:
    """Return how the job stands."""
    return JobCondition(JOB, started, attention, detail)


def test_an_event_is_its_moment_once() -> None:
    """What the wire told and the record repeats is one notification."""
    notifications = Notifications()
    asked = Notification(JOB, "permission_required", "may I?", "running")
    assert notifications.of([line("permission_required", "may I?")], [stands(attention=True)]) == [asked]
    assert notifications.of([], [stands(attention=True)]) == []
    assert notifications.of([line("permission_required", "may I?")], []) == [asked], "asked again"


def test_the_record_alone_is_enough() -> None:
    """A job that asks or has started before the watch, or while no broker carries it, is told of once."""
    notifications = Notifications()
    now = stands(started=True, attention=True, detail="may I?")
    assert [notification.event for notification in notifications.of([], [now])] == [
        "started",
        "permission_required",
    ]
    assert notifications.of([], [now]) == []
    assert notifications.of([], [stands(started=True)]) == []
    assert [notification.detail for notification in notifications.of([], [now])] == ["may I?"]


def test_a_verdict_is_a_moment() -> None:
    """The verdict's outcome is the status, its cause the detail; what is late or aside is none."""
    verdict = Verdict(JOB, Outcome.ERROR, "no disk", 1.0)
    assert Notifications().of([verdict], []) == [Notification(JOB, "verdict", "no disk", "error")]
    assert Notifications().of([line("started", late=True), line("progress"), Note(JOB, "x")], []) == []


def test_a_watch_knows_how_its_job_stands() -> None:
    """Started means an event of the present attempt; attention and detail follow the newest source."""
    record = JobRecord(JOB, new_token(), STAMP, STAMP, status=Status.RUNNING)
    watch = JobWatch.of_record(record, limits=Timeouts(), now=0.0)
    assert (watch.started, watch.attention) == (False, False)
    watch.on_record(record._replace(last_seq=2, attention=True, detail="may I?"), 1.0)
    assert (watch.started, watch.attention, watch.detail) == (True, True, "may I?")
    again = record._replace(
        status=Status.PENDING, attempt=2, attempt_seq=2, last_seq=2, auth_token=new_token()
    )
    watch.on_record(again, 2.0)
    assert (watch.started, watch.attention) == (False, False)


@pytest.mark.parametrize("text", ["", "  ", "no-such-program-anywhere x", "sh -c 'open"])
def test_what_cannot_be_run_is_refused_before_the_watch(text: str) -> None:
    """A hook that is no command is a usage error, and not a surprise at the first permission."""
    with pytest.raises(InvalidInputError, match="--exec"):
        hook_words(text)


def test_a_hook_is_split_as_a_shell_splits_and_not_interpreted() -> None:
    """Quotes group words; nothing is expanded."""
    assert hook_words("sh -c 'echo $X' \"a b\" *.py") == ["sh", "-c", "echo $X", "a b", "*.py"]
