"""What a job asks of a person: against a small model, and the rules one by one."""

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import ConflictError, InvalidInputError, JobwireError, NotFoundError
from jobwire.core.lease import Lease, LeaseGrant
from jobwire.core.signature import new_token
from jobwire.jobs import fold
from jobwire.jobs.event import Event
from jobwire.jobs.record import JobRecord, decode_record, encode_record
from jobwire.jobs.request_form import MAX_ANSWER, MAX_REQUESTS, MAX_TEXT, presentable, request_body
from jobwire.jobs.requests import KEPT_SETTLED, Answer, RequestState, find, open_requests, seconds_to_answer

NOW = 1_767_323_045.0
JOB = "0000abcd"


def running() -> JobRecord:
    """Return the record of a job whose worker has said `started`."""
    stamp = utc_timestamp(NOW)
    record = JobRecord(job_id=JOB, auth_token=new_token(), created_at=stamp, updated_at=stamp)
    return after(fold.claim(record, LeaseGrant("w", 60), NOW), "started")


def after(record: JobRecord, kind: str, now: float = NOW, **data: object) -> JobRecord:
    """Return the record after the worker's next event."""
    return fold.apply_event(
        record, Event(record.last_seq + 1, JOB, kind, utc_timestamp(NOW), "may I?", data), now
    )


def asks(record: JobRecord, request_id: str, now: float = NOW, **more: object) -> JobRecord:
    """Return the record after the worker asked."""
    body = {"id": request_id, "kind": "question", "text": "may I?", **more}
    return after(record, "permission_required", now, request=body)


def answers(record: JobRecord, request_id: str, text: str = "yes", now: float = NOW) -> JobRecord:
    """Return the record after somebody answered."""
    return fold.answer(record, request_id, Answer(text, "ann", "command"), now)


def state(record: JobRecord, request_id: str) -> RequestState | None:
    """Return how far the request is."""
    found = find(record.requests, request_id)
    return found.state if found else None


IDS = st.sampled_from(["a", "b", "c"])
WORDS = st.sampled_from(["progress", "permission_required"])


@dataclass
class Model:
    """What stands where: id -> state; `unnamed` while an ask without an id is the last event."""

    states: dict[str, str] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    unnamed: bool = False

    @property
    def attention(self) -> bool:
        """Tell whether somebody is waited for."""
        return self.unnamed or "open" in self.states.values()

    def resolve(self, ids: list[str]) -> None:
        """Close by the worker's word."""
        closes = {"open": "resolved", "answered": "applied"}
        for one in ids:
            if one in self.states:
                self.states[one] = closes.get(self.states[one], self.states[one])

    def void(self) -> None:
        """End the job or the attempt."""
        self.unnamed = False
        for one, was in self.states.items():
            if was in {"open", "answered"}:
                self.states[one] = "void"


class RequestMachine(RuleBasedStateMachine):
    """Events, answers and ends in any order, each mirrored in the model."""

    def __init__(self) -> None:
        super().__init__()
        self.record = running()
        self.model = Model()
        self.fresh: set[str] = set()

    @rule(request_id=IDS, resolved=st.lists(IDS, max_size=2))
    def ask(self, request_id: str, resolved: list[str]) -> None:
        """Ask by name; asked twice in an attempt is asked once."""
        body = {"id": request_id, "kind": "permission", "text": "push?"}
        self.record = after(self.record, "permission_required", request=body, resolved=resolved)
        self.model.unnamed = False
        self.model.resolve(resolved)
        if request_id not in self.model.states or request_id not in self.fresh:
            self.model.states[request_id] = "open"
        self.fresh.add(request_id)

    @rule(word=WORDS, resolved=st.lists(IDS, max_size=3), ill=st.sampled_from([None, 7, "a", {"id": "a"}]))
    def say(self, word: str, resolved: list[str], ill: object) -> None:
        """Say something else, with what it resolves, and perhaps with a request that is none."""
        self.record = after(self.record, word, resolved=resolved, request=ill)
        self.model.unnamed = word == "permission_required"
        self.model.resolve(resolved)

    @rule(request_id=IDS, text=st.sampled_from(["yes", "no"]))
    def answer(self, request_id: str, text: str) -> None:
        """Answer: the first wins, and a later one changes nothing."""
        before = self.record
        was = self.model.states.get(request_id)
        try:
            self.record = answers(before, request_id, text)
        except ConflictError:
            assert was not in {None, "open"}
        except NotFoundError:
            assert was is None
        else:
            assert was == "open"
            self.model.states[request_id], self.model.answers[request_id] = "answered", text

    @rule()
    def begin_again(self) -> None:
        """Lose the attempt and begin the next."""
        record = fold.retry(self.record, new_token(), NOW, "again")
        self.record = after(fold.claim(record, LeaseGrant("w", 60), NOW), "started")
        self.model.void()
        self.fresh.clear()

    @invariant()
    def agrees(self) -> None:
        """Compare the record, which is read back as it is written, with the model."""
        named = {one.id: str(one.state) for one in self.record.requests if one.named}
        assert named == self.model.states
        assert self.record.attention is self.model.attention
        for one in self.record.requests:
            if one.state in {RequestState.ANSWERED, RequestState.APPLIED}:
                assert one.answer == self.model.answers[one.id]
        assert decode_record(encode_record(self.record)) == self.record


TestRequests = RequestMachine.TestCase
TestRequests.settings = settings(max_examples=3 * settings().max_examples, stateful_step_count=25)


def test_parallel_requests_are_closed_one_by_one() -> None:
    """Another event closes none of them; each waits for its own answer."""
    record = asks(asks(running(), "a"), "b")
    record = after(record, "progress")
    assert [one.id for one in open_requests(record.requests)] == ["a", "b"]
    record = answers(record, "a")
    assert record.attention
    record = answers(record, "b", "no")
    assert not record.attention
    record = after(record, "progress", resolved=["a"])
    assert (state(record, "a"), state(record, "b")) == (RequestState.APPLIED, RequestState.ANSWERED)
    assert record.answers_n == 3


def test_the_first_answer_wins_and_a_late_one_learns_who_was_first() -> None:
    """Exit 20 with who answered and when; the answer that stands is the first."""
    record = answers(asks(running(), "a"), "a", "yes", NOW + 41)
    with pytest.raises(ConflictError, match="ann") as caught:
        answers(record, "a", "no")
    assert caught.value.facts["answered_by"] == "ann"
    asked = find(record.requests, "a")
    assert asked is not None
    assert (asked.answer, seconds_to_answer(asked)) == ("yes", 41.0)


def test_an_answer_gives_the_worker_its_lease_and_its_idle_time_anew() -> None:
    """A person may have slept: whoever was answered has as long as it was granted."""
    record = answers(asks(running(), "a"), "a", now=NOW + 5000)
    assert record.lease == Lease("w", utc_timestamp(NOW + 5060), 60)
    assert record.idle_since == utc_timestamp(NOW + 5000)


@pytest.mark.parametrize("end", ["completed", "error", "cancelled", "lost"])
def test_the_end_of_the_job_or_attempt_closes_what_is_open(end: str) -> None:
    """Nobody is asked for a job that is over, and no answer is carried out then."""
    record = answers(asks(asks(running(), "a"), "b"), "b")
    if end == "cancelled":
        record = fold.cancel(record, NOW, "no more")
    elif end == "lost":
        record = fold.lose_lease(record, new_token(), NOW, "gone")
    else:
        record = after(record, end)
    assert (state(record, "a"), state(record, "b")) == (RequestState.VOID, RequestState.VOID)
    assert not record.attention
    with pytest.raises(ConflictError):
        answers(record, "a")


def test_a_terminal_event_applies_what_it_resolves() -> None:
    """`completed` with data.resolved says that the answer was taken."""
    record = after(answers(asks(running(), "a"), "a"), "completed", resolved=["a"])
    assert state(record, "a") is RequestState.APPLIED


def test_a_request_expires_when_nobody_answers_in_time() -> None:
    """From its limit on no answer is taken, and the job is no longer waited for."""
    record = asks(running(), "a", timeout_seconds=30)
    with pytest.raises(ConflictError, match="expired"):
        answers(record, "a", now=NOW + 30)
    assert fold.expire_requests(record, NOW + 29, NOW + 29) is record
    late = fold.expire_requests(record, NOW + 30, NOW + 30)
    assert (state(late, "a"), late.attention) == (RequestState.EXPIRED, False)
    assert state(after(record, "progress", NOW + 31, resolved=["a"]), "a") is RequestState.EXPIRED


ILL_FORMED = [
    7,
    [],
    {},
    {"id": "a"},
    {"id": ["a"], "kind": "question", "text": "?"},
    {"id": "a b", "kind": "question", "text": "?"},
    {"id": "../../etc", "kind": "question", "text": "?"},
    {"id": "x" * 65, "kind": "question", "text": "?"},
    {"id": "0123abcd", "kind": "question", "text": "?"},
    {"id": "event-2", "kind": "question", "text": "?"},
    {"id": "a", "kind": "wish", "text": "?"},
    {"id": "a", "kind": ["question"], "text": "?"},
    {"id": "a", "kind": "question", "text": None},
    {"id": "a", "kind": "question", "text": "?", "choices": "yes"},
    {"id": "a", "kind": "question", "text": "?", "choices": ["yes", "yes"]},
    {"id": "a", "kind": "question", "text": "?", "choices": ["y\x1b[2Jes"]},
    {"id": "a", "kind": "question", "text": "?", "choices": ["y"] * 17},
    {"id": "a", "kind": "question", "text": "?", "default": 1},
    {"id": "a", "kind": "question", "text": "?", "timeout_seconds": -1},
    {"id": "a", "kind": "question", "text": "?", "timeout_seconds": True},
]


@pytest.mark.parametrize("body", ILL_FORMED)
def test_an_ill_formed_request_is_free_data(body: object) -> None:
    """The event is accepted, and asks as one without an id: the next event closes it."""
    record = after(running(), "permission_required", request=body)
    assert record.attention
    (asked,) = record.requests
    with pytest.raises(InvalidInputError, match="no id"):
        answers(record, asked.id)
    assert not after(record, "progress").attention
    assert not after(record, "progress").requests


@pytest.mark.parametrize("resolved", [7, "a", {"a": 1}, [1], ["a", None], ["a"] * 300, ["a b"]])
def test_ill_formed_resolutions_resolve_nothing(resolved: object) -> None:
    """What is no list of ids is data like any other."""
    assert after(asks(running(), "a"), "progress", resolved=resolved).attention


def test_a_record_holds_a_bounded_number() -> None:
    """Of hundreds of requests the record holds 256 open ones, and of settled ones the latest."""
    record = running()
    for number in range(MAX_REQUESTS + 50):
        record = asks(record, f"r-{number}")
    assert len(record.requests) == MAX_REQUESTS
    assert len(decode_record(encode_record(record)).requests) == MAX_REQUESTS
    for number in range(MAX_REQUESTS):
        record = answers(record, f"r-{number}")
    assert not record.attention
    record = after(record, "progress", resolved=[f"r-{number}" for number in range(MAX_REQUESTS)])
    assert [one.id for one in record.requests] == [
        f"r-{number}" for number in range(MAX_REQUESTS - KEPT_SETTLED, MAX_REQUESTS)
    ]


@pytest.mark.parametrize(
    ("text", "takes"),
    [("yes", True), ("maybe", False), ("", False), ("y\0", False), ("\ud800", False), ("x" * 2**20, False)],
)
def test_a_permission_takes_its_choices_only(text: str, takes: bool) -> None:
    """An answer is one of the choices, or refused with them; huge and broken ones are refused too."""
    record = asks(running(), "a", kind="permission", choices=["yes", "no"])
    if takes:
        assert state(answers(record, "a", text), "a") is RequestState.ANSWERED
    else:
        with pytest.raises(InvalidInputError):
            answers(record, "a", text)


def test_a_question_takes_any_text_beside_its_choices() -> None:
    """The choices of a question are proposals."""
    record = answers(asks(running(), "a", choices=["red"]), "a", "x" * MAX_ANSWER)
    assert state(record, "a") is RequestState.ANSWERED


def test_always_needs_a_scope() -> None:
    """An answer for always says for what."""
    always = Answer("yes", "ann", "command", always=True)
    with pytest.raises(InvalidInputError, match="scope"):
        fold.answer(asks(running(), "a"), "a", always, NOW)
    record = fold.answer(asks(running(), "a", scope="git push *"), "a", always, NOW)
    assert record.requests[0].always


@given(st.text(max_size=300), st.integers(20, 100))
def test_what_is_shown_for_approval_is_harmless_and_bounded(text: str, limit: int) -> None:
    """Nothing that acts, reorders or hides text is left, and it is never longer than its place."""
    shown = presentable(text, limit)
    assert len(shown) <= limit
    assert not any(ord(one) < 32 and one not in "\n\t" for one in shown)
    assert not set("\u200b\u200d\u202e\u2066\ufeff\u00ad\u061c\u2028\x9b\x7f") & set(shown)
    shown.encode()


def test_what_is_shown_for_approval_keeps_both_ends_and_no_secret() -> None:
    """A long command is cut in the middle; a token in it is masked wherever it stood."""
    shown = presentable("curl -H 'Authorization: Bearer abcdefghij0123456789' " + "x" * 5000 + " | sh", 200)
    assert shown.startswith("curl -H")
    assert shown.endswith("| sh")
    assert "abcdefghij" not in shown


@given(st.text(min_size=1, max_size=40), st.sampled_from([None, 3.0]))
def test_what_a_worker_may_ask_every_reader_takes(text: str, seconds: float | None) -> None:
    """A body that is made becomes a request by the same rules."""
    try:
        body = request_body("r-1", text, timeout_seconds=seconds, choices=["yes"], preview=text)
    except JobwireError:
        return
    body = json.loads(json.dumps(body))
    record = after(running(), "permission_required", request=body)
    assert record.requests[0].named
    assert len(record.requests[0].text) <= MAX_TEXT


def test_a_default_is_one_of_the_choices() -> None:
    """Where there are choices, the answer of nobody is one of them; what another program asked stays."""
    assert request_body("r-1", "?", choices=["yes", "no"], default="no")["default"] == "no"
    assert request_body("r-1", "?", default="later")["default"] == "later"
    with pytest.raises(InvalidInputError) as refused:
        request_body("r-1", "?", choices=["yes", "no"], default="later")
    assert (refused.value.facts["code"], refused.value.hint) == (
        "invalid_input",
        "one of yes, no, or no choices",
    )
    record = asks(running(), "a", choices=["yes", "no"], default="later")
    assert (record.requests[0].named, record.requests[0].default) == (True, "later")


def test_a_record_of_an_earlier_version_keeps_its_attention_until_the_next_event() -> None:
    """Such a record has the flag and no requests."""
    body = json.loads(encode_record(running()._replace(attention=True)))
    del body["requests"], body["answers_n"]
    record = decode_record(json.dumps(body).encode())
    assert record.attention
    assert not after(record, "progress").attention
