"""An answer in a thread is the answer to what the thread's job asks, under the rule of `jobwire answer`."""

import pytest

from jobwire.coordination import answering, reading, sending
from jobwire.coordination.marks import behind, catch_up
from jobwire.coordination.message import NewMessage
from jobwire.coordination.replying import Replied, reply
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.work import ThreadWork
from jobwire.core.errors import ConflictError, InvalidInputError, JobwireError, NotFoundError
from jobwire.delivery.signing import Draft, sign_next
from jobwire.jobs.request_form import request_body
from jobwire.jobs.requests import Request, RequestState, find
from jobwire.registry.store import RecordStore
from jobwire.testing.broken_disks import Crash

TASK = NewMessage("lead", ("builder",), kind="task", subject="paint it")


class Thread:
    """A thread whose builder works, and may ask."""

    def __init__(self, store: CoordinationStore) -> None:
        self.store = store
        self.id = sending.send(store, TASK).thread_id
        work = ThreadWork(store, "builder", environ={})
        self.job_id = work.claim(self.id).token.job_id
        work.update(NewMessage("builder", thread_id=self.id, summary="I begin"), "in_progress")
        self.records = RecordStore(store.home, clock=store.clock)

    def ask(self, request_id: str, kind: str = "question") -> None:
        """Ask something."""
        body = request_body(request_id, f"{request_id}?", kind=kind, choices=["yes", "no"])
        self.say({"request": body})

    def say(self, data: dict[str, object]) -> None:
        """Say that the job waits for somebody."""
        with self.records.locked(self.job_id) as locked:
            record = locked.record
            draft = Draft("permission_required", "?", data)
            event, signed = sign_next(record, draft, seq=record.last_seq + 1, now=self.store.clock.now())
            locked.apply(event, signed.payload, source="publisher")

    def answer(self, text: str, *, request: str | None = None, message_id: str = "") -> Replied:
        """Answer as the lead."""
        new = NewMessage("lead", kind="answer", thread_id=self.id, summary=text, id=message_id)
        return reply(self.store, new, request=request)

    def request(self, request_id: str) -> Request:
        """Return what became of a request."""
        found = find(self.records.get(self.job_id).requests, request_id)
        assert found is not None
        return found

    @property
    def answers(self) -> list[str]:
        """Return the answers that stand in the thread."""
        return [one.summary for one in reading.messages_of(self.store, self.id) if one.kind == "answer"]


@pytest.fixture
def thread(store: CoordinationStore) -> Thread:
    """Give a thread with a job."""
    return Thread(store)


def test_a_reply_answers_the_only_open_question(thread: Thread) -> None:
    """Its summary is the answer; record, thread and message say so, and who answered through what."""
    thread.ask("colour")
    assert catch_up(thread.store)
    assert reading.thread_of(thread.store, thread.id).status == "blocked"
    replied = thread.answer("red")
    asked = thread.request("colour")
    assert (asked.state, asked.answer) == (RequestState.ANSWERED, "red")
    assert (asked.answered_by, asked.answered_through) == ("lead", "inbox")
    assert (replied.request, thread.answers) == ("colour", ["red"])
    assert reading.thread_of(thread.store, thread.id).status == "in_progress"
    assert not behind(thread.store)


def test_of_several_open_questions_one_is_named(thread: Thread) -> None:
    """Without a name the error tells which there are, and nothing is said; with one that one is settled."""
    thread.ask("colour")
    thread.ask("size")
    with pytest.raises(InvalidInputError, match="colour, size"):
        thread.answer("red")
    assert thread.answers == []
    thread.answer("large", request="size")
    states = [thread.request(one).state for one in ("colour", "size")]
    assert states == [RequestState.OPEN, RequestState.ANSWERED]


@pytest.mark.parametrize("named", [None, "push"])
def test_a_permission_is_never_given_in_the_inbox(thread: Thread, named: str | None) -> None:
    """Named or not it is forbidden, and nothing is said."""
    thread.ask("push", "permission")
    with pytest.raises(InvalidInputError) as caught:
        thread.answer("yes", request=named)
    assert caught.value.facts["code"] == "forbidden"
    assert (thread.request("push").state, thread.answers) == (RequestState.OPEN, [])


def test_the_first_answer_is_the_answer(thread: Thread) -> None:
    """A later one is a conflict that names the first, and is not said; the same message again is known."""
    thread.ask("colour")
    first = thread.answer("red", request="colour", message_id="m-1")
    with pytest.raises(ConflictError) as caught:
        thread.answer("blue", request="colour")
    assert (caught.value.exit_code, caught.value.facts["answered_by"]) == (20, "lead")
    again = thread.answer("red", request="colour", message_id="m-1")
    assert (again.posted.message_id, again.posted.duplicate) == (first.posted.message_id, True)
    assert (thread.answers, thread.request("colour").answer) == (["red"], "red")


def test_where_nothing_is_asked_an_answer_is_a_message(thread: Thread) -> None:
    """Also beside an open request without an id, which no answer reaches; an unknown one is not found."""
    assert thread.answer("on it").request is None
    thread.say({})
    assert thread.answer("main").request is None
    assert thread.answers == ["on it", "main"]
    with pytest.raises(NotFoundError):
        thread.answer("red", request="colour")


def test_only_an_answer_settles(thread: Thread) -> None:
    """A word of another kind says something and leaves the question open; it cannot name a request."""
    thread.ask("colour")
    new = NewMessage("lead", kind="event", thread_id=thread.id, summary="soon")
    reply(thread.store, new)
    assert thread.request("colour").state is RequestState.OPEN
    with pytest.raises(InvalidInputError):
        reply(thread.store, new, request="colour")


@pytest.mark.parametrize(
    "new", [{"from_agent": "stranger"}, {"summary": "", "body": ""}, {"summary": "x" * 5000}]
)
def test_who_may_not_and_what_is_no_answer_is_refused_whole(thread: Thread, new: dict[str, str]) -> None:
    """A stranger's, an empty and a too long answer leave neither a message nor an answer."""
    thread.ask("colour")
    given = NewMessage("lead", kind="answer", thread_id=thread.id, summary="red")._replace(**new)  # type: ignore[arg-type]
    with pytest.raises(JobwireError):
        reply(thread.store, given)
    assert thread.request("colour").state is RequestState.OPEN
    assert thread.answers == []
    assert not thread.store.rows("prepared_jobs")


def _stop() -> None:
    raise Crash


@pytest.mark.parametrize(("stopped_in", "said"), [("answer_locked", False), ("done_with_read", True)])
def test_killed_between_record_and_thread_both_agree(
    thread: Thread, monkeypatch: pytest.MonkeyPatch, stopped_in: str, said: bool
) -> None:
    """The next look finds the answer in both or in neither; repeating it says it once."""
    thread.ask("colour")
    with monkeypatch.context() as patch:
        patch.setattr(answering, stopped_in, lambda *_, **__: _stop())
        with pytest.raises(Crash):
            thread.answer("red", message_id="m-1")
    catch_up(thread.store)
    assert not behind(thread.store)
    assert (thread.request("colour").state is RequestState.ANSWERED, thread.answers == ["red"]) == (
        said,
        said,
    )
    thread.answer("red", message_id="m-1")
    assert (thread.request("colour").answer, thread.answers) == ("red", ["red"])
