"""Admission from raw bytes: every row of the table, and no input that breaks it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.signature import new_token
from jobwire.core.topics import Topics
from jobwire.jobs.admission import REMEMBERED, Accepted, JobView, Reason, Rejected, Verdict, admit
from jobwire.jobs.event import MAX_JUMP, MAX_PAYLOAD, Event, encode_signed
from jobwire.jobs.lifecycle import Status

JOB = "0000abcd"
TOPICS = Topics()
TOKEN = new_token()
STAMP = "2026-01-02T03:04:05.678Z"


def event(seq: int = 1, kind: str = "started", detail: str = "", **data: object) -> Event:
    """Return an event of the test's job."""
    return Event(seq, JOB, kind, STAMP, detail, data)


def payload(
    seq: int = 1, kind: str = "started", detail: str = "", token: str = TOKEN, **data: object
) -> bytes:
    """Return a signed event as bytes."""
    return encode_signed(event(seq, kind, detail, **data), token)


def judge(
    view: JobView | None, raw: bytes, *, retained: bool = False, topic: str = TOPICS.events(JOB)
) -> Verdict:
    """Admit `raw` and, like every consumer, note the verdict in the view."""
    verdict = admit(TOPICS, topic, raw, retained=retained, job=view)
    if view is not None and isinstance(verdict, Accepted):
        view.accept(verdict)
    elif (
        view is not None and isinstance(verdict, Rejected) and verdict.reason is Reason.LATE and verdict.event
    ):
        view.remember(verdict.event.seq, verdict.digest)
    return verdict


def reason(verdict: Verdict) -> str:
    """Return the reason's name, or accepted."""
    return str(verdict.reason) if isinstance(verdict, Rejected) else "accepted"


def changed(**fields: object) -> bytes:
    """Return a signed event with fields replaced afterwards (the signature then covers other bytes)."""
    return json.dumps({**json.loads(payload()), **fields}).encode()


MALFORMED = [
    b"",
    b"null",
    b"[]",
    b'"text"',
    b"{",
    b"\xff\xfe",
    b"\xef\xbb\xbf" + payload(),
    payload() + b"x",
    payload() + b"{}",
    b'{"schema_version":1,"schema_version":1}',
    b'{"data":{"a":1,"a":2}}',
    b'{"data":{"a":NaN}}',
    b'{"data":{"a":Infinity}}',
    b'{"data":{"a":-Infinity}}',
    b'{"data":{"a":1e999}}',
    b'{"data":{"a":9007199254740992}}',
    b'{"data":{"a":' + b"9" * 5000 + b"}}",
    b'{"data":' + b"[" * 40 + b"]" * 40 + b"}",
    b"[" * 60_000,
    b'{"data":{"a":"\\ud800"}}',
    b'{"data":{"\\udfff":1}}',
]


@pytest.mark.parametrize("raw", MALFORMED)
def test_malformed(raw: bytes) -> None:
    """Bytes with no meaning, or with more than one, are malformed."""
    assert reason(judge(JobView(token=TOKEN), raw)) == "malformed"


@pytest.mark.parametrize("version", [0, 2, 1.0, "1", None, True])
def test_schema_version(version: object) -> None:
    """Any other version number is discarded by name, whatever else the message holds."""
    assert (
        reason(judge(JobView(token=TOKEN), json.dumps({"schema_version": version, "new": 1}).encode()))
        == "schema_version"
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"seq": 0},
        {"seq": "1"},
        {"seq": True},
        {"seq": 1.0},
        {"job_id": "0000ABCD"},
        {"job_id": "abc"},
        {"event": "finished"},
        {"event": None},
        {"timestamp": "yesterday"},
        {"timestamp": "2026-01-02T03:04:05+00:00"},
        {"timestamp": "2026-02-31T03:04:05Z"},
        {"timestamp": "٢٠٢٦-01-02T03:04:05Z"},
        {"detail": 5},
        {"detail": "x" * 1025},
        {"data": []},
        {"data": None},
        {"token": "x"},
    ],
)
def test_invalid_field(fields: dict[str, object]) -> None:
    """A field outside its rule, or a field too many, is named and the event refused."""
    assert reason(judge(JobView(token=TOKEN), changed(**fields))) == "invalid_field"


@pytest.mark.parametrize("field", ["seq", "job_id", "event", "timestamp", "detail", "data"])
def test_missing_field(field: str) -> None:
    """Every field is required."""
    body = json.loads(payload())
    del body[field]
    assert reason(judge(JobView(token=TOKEN), json.dumps(body).encode())) == "invalid_field"


def test_a_rejection_never_repeats_a_strangers_text() -> None:
    """The reason names our fields, not what a forger wrote."""
    verdict = judge(JobView(token=TOKEN), changed(**{"\x1b[31mpwn": 1}))
    assert isinstance(verdict, Rejected)
    assert "pwn" not in verdict.why


@pytest.mark.parametrize(
    "topic", ["python/mqtt/jobs/ffffffff/events", f"python/mqtt/jobs/{JOB}/state", f"other/{JOB}/events", ""]
)
def test_topic_mismatch(topic: str) -> None:
    """An event counts only on its own job's topic."""
    assert reason(judge(JobView(token=TOKEN), payload(), topic=topic)) == "topic_mismatch"


def test_oversize() -> None:
    """More than 64 KiB is refused before it is parsed; exactly 64 KiB is not oversize."""
    assert reason(judge(JobView(token=TOKEN), b" " * (MAX_PAYLOAD + 1))) == "oversize"
    assert reason(judge(JobView(token=TOKEN), b" " * MAX_PAYLOAD)) == "malformed"


def test_unknown_job_unsigned_and_bad_signature() -> None:
    """Without a key, without a signature or with another's, an event is refused by name."""
    bare = json.loads(payload())
    del bare["data"]["hmac_sig"]
    assert reason(judge(None, payload())) == "unknown_job"
    assert reason(judge(JobView(token=TOKEN), json.dumps(bare).encode())) == "unsigned"
    assert reason(judge(JobView(token=TOKEN), payload(token=new_token()))) == "bad_signature"
    assert reason(judge(JobView(token=TOKEN), changed(detail="another"))) == "bad_signature"
    assert reason(judge(JobView(token=TOKEN), changed(data={"hmac_sig": 7}))) == "bad_signature"


def test_white_space_and_order_do_not_matter() -> None:
    """The signature covers the canonical form: a foreign serialiser's bytes verify as well."""
    body = json.loads(payload(detail="ünï", figure=1.5))
    raw = json.dumps(dict(reversed(body.items())), indent=3).encode()
    assert reason(judge(JobView(token=TOKEN), raw)) == "accepted"


def test_redelivery_is_a_duplicate_and_other_bytes_a_replay() -> None:
    """The same bytes again are benign; another event under a used seq is not."""
    view = JobView(token=TOKEN)
    assert reason(judge(view, payload(1))) == "accepted"
    assert reason(judge(view, payload(1))) == "duplicate"
    assert reason(judge(view, payload(1, detail="other"))) == "replayed"


def test_a_forger_cannot_make_a_replay() -> None:
    """Other bytes under a used seq without the key are a bad signature, nothing more."""
    view = JobView(token=TOKEN)
    judge(view, payload(1))
    assert reason(judge(view, payload(1, detail="x", token=new_token()))) == "bad_signature"


def test_late_once() -> None:
    """An event that was overtaken is late the first time and a duplicate afterwards."""
    view = JobView(token=TOKEN)
    judge(view, payload(1))
    assert reason(judge(view, payload(3, "progress"))) == "accepted"
    assert list(view.missing) == [2]
    assert reason(judge(view, payload(2, "progress"))) == "late"
    assert reason(judge(view, payload(2, "progress"))) == "duplicate"
    assert not view.missing


def test_nothing_follows_the_end() -> None:
    """After a terminal event or a cancellation every new event is refused; a redelivery stays benign."""
    view = JobView(token=TOKEN)
    judge(view, payload(1))
    assert reason(judge(view, payload(2, "completed"), retained=True)) == "accepted"
    assert reason(judge(view, payload(2, "completed"), retained=True)) == "duplicate"
    assert reason(judge(view, payload(3, "error"), retained=True)) == "after_terminal"
    cancelled = JobView(token=TOKEN, status=Status.CANCELLED, last_seq=1)
    assert reason(judge(cancelled, payload(2, "progress"))) == "after_terminal"


def test_an_attempt_says_started_once_and_first() -> None:
    """`started` opens an attempt; before it nothing fits, and it comes only once."""
    assert reason(judge(JobView(token=TOKEN), payload(1, "progress"))) == "illegal_transition"
    picked = JobView(token=TOKEN, status=Status.RUNNING)
    assert reason(judge(picked, payload(1, "completed"))) == "illegal_transition"
    assert reason(judge(picked, payload(1))) == "accepted"
    assert reason(judge(picked, payload(2))) == "illegal_transition"


def test_only_terminal_events_are_retained() -> None:
    """A retained progress event would be repeated by the broker for ever: it is refused."""
    view = JobView(token=TOKEN)
    judge(view, payload(1))
    assert reason(judge(view, payload(2, "progress"), retained=True)) == "illegal_transition"


def test_a_new_attempt_fences_the_old_one() -> None:
    """After a claim the old key is refused, the old bytes are a replay, the new worker starts over."""
    view, fresh = JobView(token=TOKEN), new_token()
    judge(view, payload(1))
    judge(view, payload(2, "progress"))
    view.new_attempt(token=fresh, attempt=2, status=Status.PENDING, attempt_seq=2)
    assert reason(judge(view, payload(3, "progress"))) == "bad_signature"
    assert reason(judge(view, payload(2, "progress"))) == "replayed"
    assert reason(judge(view, payload(3, "started", token=fresh))) == "accepted"


def test_a_late_joiner_takes_the_middle_of_a_story() -> None:
    """A watcher that comes late accepts the next event, whatever it is, and then knows the order."""
    view = JobView(token=TOKEN, status=Status.RUNNING, joined_late=True)
    assert reason(judge(view, payload(7, "progress"))) == "accepted"
    assert not view.missing
    assert reason(judge(view, payload(7, "progress"))) == "duplicate"
    assert reason(judge(view, payload(8, "completed"), retained=True)) == "accepted"


def test_memory_is_bounded() -> None:
    """A job of any length keeps a bounded number of digests and gaps."""
    view = JobView(token=TOKEN)
    for seq in range(1, REMEMBERED + 100):
        view.remember(seq, b"x")
    view.remember(10**9, b"x")
    assert view.seen(1) is None
    assert len(view.missing) <= 4096


def test_what_is_forgotten_is_a_replay() -> None:
    """Of an event whose digest was let go only the reason differs; what is missing is still let in."""
    view = JobView(token=TOKEN)
    for seq, kind in ((1, "started"), (3, "progress"), (4, "progress")):
        judge(view, payload(seq, kind))
    view.forget(1)
    assert reason(judge(view, payload(4, "progress"))) == "duplicate"
    assert reason(judge(view, payload(3, "progress"))) == "replayed"
    assert reason(judge(view, payload(2, "progress"))) == "late"


def test_seq_rises_by_so_much_and_no_more() -> None:
    """Whoever folds refuses a farther jump, and goes on with the next event that fits."""
    view = JobView(token=TOKEN)
    judge(view, payload(1))
    assert reason(judge(view, payload(2 + MAX_JUMP, "progress"))) == "invalid_field"
    assert reason(judge(view, payload(2**53 - 1, "completed"), retained=True)) == "invalid_field"
    assert reason(judge(view, payload(1 + MAX_JUMP, "progress"))) == "accepted"
    assert reason(judge(view, payload(2, "progress"))) == "late"
    assert reason(judge(view, payload(2 + MAX_JUMP, "progress"))) == "accepted"


def test_a_watcher_follows_whatever_was_lost() -> None:
    """A consumer that folds nothing takes a jump of any width, at no cost: a broker may drop a lot."""
    view = JobView(token=TOKEN, status=Status.RUNNING, last_seq=5, joined_late=True)
    for number in range(1, 200):
        assert reason(judge(view, payload(5 + number * 10**9, "progress"))) == "accepted"
    assert len(view.missing) == MAX_JUMP


@given(st.binary(max_size=300))
def test_any_bytes_get_a_reason(raw: bytes) -> None:
    """No input makes admission raise."""
    assert isinstance(judge(JobView(token=TOKEN), raw), Rejected)


@given(st.data())
def test_a_changed_bit_is_never_accepted(data: st.DataObject) -> None:
    """A flipped bit in a signed event gives a reason, or the very same event (white space does not occur)."""
    good = bytearray(payload(detail="ok", figure=12))
    position = data.draw(st.integers(0, len(good) - 1))
    good[position] ^= 1 << data.draw(st.integers(0, 7))
    assert isinstance(judge(JobView(token=TOKEN), bytes(good)), Rejected)


def test_a_late_joiner_that_missed_started_goes_on() -> None:
    """Where `started` was lost on the way, the events after it still count, up to the end."""
    view = JobView(token=TOKEN, joined_late=True)
    assert reason(judge(view, payload(2, "progress"))) == "accepted"
    assert reason(judge(view, payload(3, "progress"))) == "accepted"
    assert reason(judge(view, payload(4, "completed"), retained=True)) == "accepted"
    assert view.status is Status.COMPLETED


def test_a_late_joiner_follows_a_claim_whose_started_was_lost() -> None:
    """After a claim a gap before the first event explains the missing `started`; no gap does not."""
    fresh = new_token()
    for seq, expected in ((5, "illegal_transition"), (6, "accepted")):
        view = JobView(token=TOKEN, status=Status.RUNNING, last_seq=4, joined_late=True)
        view.new_attempt(token=fresh, attempt=2, status=Status.PENDING, attempt_seq=4)
        assert reason(judge(view, payload(seq, "progress", token=fresh))) == expected
