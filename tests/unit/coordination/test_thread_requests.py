"""What a job asks stands in its thread, and so does the answer, whichever way either came."""

import json

import pytest

from jobwire.coordination import reading, sending
from jobwire.coordination.marks import catch_up
from jobwire.coordination.message import NewMessage
from jobwire.coordination.replying import reply
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.stored import InboxMessage
from jobwire.coordination.work import ThreadWork
from jobwire.core.errors import ConflictError
from jobwire.jobs.requests import Answer, Request, open_requests
from jobwire.publisher.asking import NoAnswerError
from jobwire.publisher.publisher import Publisher
from jobwire.registry.queue import JobQueue
from jobwire.registry.requests import give_answer

TASK = NewMessage("lead", ("builder",), kind="task", subject="paint it")


class Asking:
    """A thread whose builder has claimed it and said nothing yet."""

    def __init__(self, store: CoordinationStore) -> None:
        self.store = store
        self.id = sending.send(store, TASK).thread_id
        self.work = ThreadWork(store, "builder", environ={})
        self.job_id = self.work.claim(self.id).token.job_id

    def block(self, text: str, **more: object) -> Request:
        """Ask by an update, and return the request."""
        new = NewMessage("builder", thread_id=self.id, summary=text)
        self.work.update(new, "blocked", **more)  # type: ignore[arg-type]
        return self.open()[-1]

    def open(self) -> list[Request]:
        """Return what waits for somebody."""
        return open_requests(self.work.records.get(self.job_id).requests)

    def give(self, request: Request, text: str, by: str = "ann") -> None:
        """Answer as the page does."""
        queue = JobQueue(self.work.records, warn=pytest.fail)
        give_answer(queue, self.job_id, Answer(text, by, "page"), request_id=request.id)

    def said(self) -> list[InboxMessage]:
        """Return the thread's messages but the first, brought up to the job."""
        catch_up(self.store)
        return reading.messages_of(self.store, self.id)[1:]


@pytest.fixture
def asking(store: CoordinationStore) -> Asking:
    """Give a thread whose worker may ask."""
    return Asking(store)


def test_what_an_update_waits_for_is_answered_anywhere(asking: Asking) -> None:
    """A blocked update is a request with choices; its answer on the page is a message to the worker."""
    request = asking.block("which port?", choices=("8883", "1883"))
    assert (request.kind, request.text, request.choices) == ("question", "which port?", ("8883", "1883"))
    asking.give(request, "8883")
    asked, answer = asking.said()
    assert (asked.kind, asked.correlation_id) == ("question", request.id)
    assert (answer.kind, answer.from_agent, answer.to, answer.summary) == (
        "answer",
        "ann",
        ("builder",),
        "8883",
    )
    assert (answer.in_reply_to, answer.correlation_id) == (asked.id, request.id)
    assert reading.thread_of(asking.store, asking.id).status == "in_progress"


def test_an_answer_in_the_thread_is_the_answer_and_is_said_once(asking: Asking) -> None:
    """`inbox reply` settles what the update asked; nobody answers it again, and no second message appears."""
    request = asking.block("which port?")
    replied = reply(asking.store, NewMessage("lead", kind="answer", thread_id=asking.id, summary="8883"))
    assert replied.request == request.id
    with pytest.raises(ConflictError):
        asking.give(request, "1883")
    assert [one.kind for one in asking.said()] == ["question", "answer"]


def test_who_goes_on_needs_no_answer_any_more(asking: Asking) -> None:
    """The next update settles what the one before asked, and a new question is the only one that is open."""
    asking.block("which port?")
    second = asking.block("which host?")
    assert [one.id for one in asking.open()] == [second.id]
    asking.work.update(NewMessage("builder", thread_id=asking.id, summary="found it"), "in_progress")
    assert asking.open() == []


def test_a_worker_that_talks_on_does_not_answer_itself(asking: Asking) -> None:
    """A reply of whoever asked leaves the question open."""
    asking.block("which port?")
    reply(
        asking.store, NewMessage("builder", ("lead",), "answer", thread_id=asking.id, summary="the TLS one")
    )
    assert len(asking.open()) == 1


def test_a_question_by_ask_right_after_the_claim_stands_in_the_thread(asking: Asking) -> None:
    """`ask` needs no update before it; question and answer are messages, once, however often one looks."""
    publisher = Publisher(asking.job_id, home=asking.store.home, environ={})
    with pytest.raises(NoAnswerError):
        publisher.ask("push to main?", choices=["yes", "no"], timeout_seconds=0.01, request="push")
    assert [(one.kind, one.summary, one.from_agent, one.to) for one in asking.said()] == [
        ("question", "push to main?", "builder", ("lead",))
    ]
    publisher.keep("progress", "on")
    assert len(asking.said()) == 1
    assert json.loads(asking.said()[0].payload or "")["choices"] == ["yes", "no"]
    with pytest.raises(NoAnswerError):
        publisher.ask("and tag it?", timeout_seconds=0.01, request="tag")
    assert [one.summary for one in asking.said()] == ["push to main?", "and tag it?"]


def test_what_is_asked_and_answered_between_two_looks_comes_in_its_order(asking: Asking) -> None:
    """A later question of the worker stands behind the answer to an earlier one."""
    first = asking.block("which port?")
    asking.give(first, "8883", by="a person with spaces")
    asking.block("which host?")
    assert [(one.kind, one.from_agent) for one in asking.said()] == [
        ("question", "builder"),
        ("answer", "jobwire"),
        ("question", "builder"),
    ]
