"""The signed sheet of answers: what a worker on another host believes, and what it does not."""

import json

import pytest

from jobwire.core.clock import utc_timestamp
from jobwire.core.envelope import seal
from jobwire.jobs import fold
from jobwire.jobs.answers import decode_answers, encode_answers
from jobwire.jobs.event import MAX_PAYLOAD, Event
from jobwire.jobs.record import JobRecord
from jobwire.jobs.request_form import MAX_ANSWER
from jobwire.jobs.requests import Answer

NOW = 1_767_323_045.0
JOB, TOKEN = "0000abcd", "t" * 43
STAMP = utc_timestamp(NOW)


def asking(*names: str) -> JobRecord:
    """Return a running job's record with open requests."""
    record = JobRecord(JOB, TOKEN, STAMP, STAMP)
    record = fold.apply_event(record, Event(1, JOB, "started", STAMP, "", {}), NOW)
    for seq, name in enumerate(names, 2):
        body = {"id": name, "kind": "question", "text": "?"}
        event = Event(seq, JOB, "permission_required", STAMP, "", {"request": body})
        record = fold.apply_event(record, event, NOW)
    return record


def read(payload: bytes, *, attempt: int = 1, token: str = TOKEN) -> dict[str, str] | None:
    """Return the answers by request, None for what is not believed."""
    sheet = decode_answers(payload, job_id=JOB, attempt=attempt, token=token)
    return None if sheet is None else {name: one.text for name, one in sheet.answers.items()}


def test_what_is_answered_and_not_applied_stands_on_the_sheet() -> None:
    """It grows with each answer and shrinks with each that was taken; its number rises every time."""
    record = asking("a", "b", "c")
    assert encode_answers(record) == b""
    record = fold.answer(record, "a", Answer("yes", "ann", "page"), NOW)
    record = fold.answer(record, "b", Answer("no", "ann", "page", always=False), NOW)
    assert read(encode_answers(record)) == {"a": "yes", "b": "no"}
    taken = Event(5, JOB, "progress", STAMP, "", {"resolved": ["a"]})
    later = fold.apply_event(record, taken, NOW)
    assert read(encode_answers(later)) == {"b": "no"}
    assert later.answers_n > record.answers_n
    ended = fold.cancel(later, NOW, "no more")
    assert encode_answers(ended) == b""
    assert ended.answers_n > later.answers_n


def test_a_sheet_of_another_attempt_key_or_job_is_not_believed() -> None:
    """Nor one that was changed on its way, of a newer form, or no sheet at all."""
    record = fold.answer(asking("a"), "a", Answer("yes", "ann", "page"), NOW)
    genuine = encode_answers(record)
    assert read(genuine) == {"a": "yes"}
    assert read(genuine, attempt=2) is None
    assert read(genuine, token="x" * 43) is None
    assert decode_answers(genuine, job_id="0000abce", attempt=1, token=TOKEN) is None
    assert read(genuine.replace(b"yes", b"no!")) is None
    body = json.loads(genuine)
    del body["hmac_sig"], body["superseded"]
    changes: list[dict[str, object]] = [{"schema_version": 2}, {"kind": "state"}, {"n": "1"}, {"answers": {}}]
    for change in changes:
        assert read(seal({**body, **change}, TOKEN)) is None
    for payload in (b"", b"{}", b"[]", b"\xff", b"x" * (MAX_PAYLOAD + 1)):
        assert read(payload) is None


@pytest.mark.parametrize(
    "item", [7, {}, {"id": "../x", "text": "a", "by": "b", "through": "c"}, {"id": "0000abcd", "text": "a"}]
)
def test_a_strangers_item_is_left_out(item: object) -> None:
    """A signed sheet with something else on it still brings its answers."""
    good = {"id": "a", "text": "yes", "by": "ann", "through": "page"}
    body = {
        "schema_version": 1,
        "kind": "answers",
        "job_id": JOB,
        "attempt": 1,
        "n": 1,
        "answers": [item, good],
    }
    assert read(seal(body, TOKEN)) == {"a": "yes"}


def test_many_long_answers_come_one_sheet_after_the_other() -> None:
    """No sheet is larger than a message may be; those that were taken make room for the rest."""
    names = [f"r{number}" for number in range(40)]
    record = asking(*names)
    for name in names:
        record = fold.answer(record, name, Answer("\N{GRINNING FACE}" * MAX_ANSWER, "ann", "page"), NOW)
    heard: list[str] = []
    while payload := encode_answers(record):
        assert len(payload) <= MAX_PAYLOAD
        found = read(payload)
        assert found
        heard += found
        taken = Event(record.last_seq + 1, JOB, "progress", STAMP, "", {"resolved": list(found)})
        record = fold.apply_event(record, taken, NOW)
    assert heard == names
