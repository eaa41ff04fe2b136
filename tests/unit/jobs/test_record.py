"""Records: form on disk, every transition, and the snapshot for others."""

import itertools
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from jobwire.core.bounds import MAX_SECONDS
from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import ConflictError, InvalidInputError, StoppedError, TransitionError
from jobwire.core.lease import Lease, LeaseGrant
from jobwire.core.signature import new_token
from jobwire.jobs.event import Event
from jobwire.jobs.fold import apply_event, cancel, claim, fail, next_attempt, renew
from jobwire.jobs.lifecycle import TRANSITIONS, Status, check_transition
from jobwire.jobs.models import RecordModel, StateModel
from jobwire.jobs.record import (
    JobRecord,
    Priority,
    RecordFormatError,
    Timeouts,
    decode_record,
    encode_record,
    public_record,
)
from jobwire.jobs.snapshot import UnknownStateError, decode_snapshot, encode_snapshot

STAMP = "2026-01-02T03:04:05.678Z"
NOW = 1_767_323_045.0
text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
seconds = st.none() | st.integers(1, 10**6) | st.floats(0.001, 1e6)


def fresh(**fields: object) -> JobRecord:
    """Return a new pending job's record."""
    record = JobRecord(job_id="0000abcd", auth_token=new_token(), created_at=STAMP, updated_at=STAMP)
    return record._replace(**fields)  # type: ignore[arg-type]


def said(seq: int, kind: str, detail: str = "") -> Event:
    """Return an event of the job."""
    return Event(seq, "0000abcd", kind, STAMP, detail, {})


records = st.builds(
    fresh,
    status=st.sampled_from(Status),
    attempt=st.integers(1, 9),
    agent_session=st.none() | text,
    title=text,
    instructions=text,
    started_at=st.none() | st.just(STAMP),
    last_seq=st.integers(0, 2**53 - 1),
    attention=st.booleans(),
    result=st.none() | st.dictionaries(text, text, max_size=2),
    lease=st.none() | st.builds(Lease, text, st.just(STAMP), seconds.filter(bool)),
    idle_since=st.none() | st.just(STAMP),
    not_before=st.none() | st.just(STAMP),
    timeouts=st.builds(Timeouts, seconds, seconds, seconds),
    priority=st.sampled_from(Priority),
    broker=st.dictionaries(text, text | st.integers(0, 99), max_size=2),
    previous_tokens=st.lists(text, max_size=2).map(tuple),
    extra=st.dictionaries(text.map(lambda name: "x_" + name), st.integers(0, 9), max_size=2),
)


@given(records)
def test_record_round_trip(record: JobRecord) -> None:
    """What is written is read back, unknown fields included, and the published schema agrees."""
    encoded = encode_record(record)
    assert decode_record(encoded) == record
    RecordModel.model_validate_json(encoded)


@given(records, st.data())
def test_decoder_and_schema_refuse_alike(record: JobRecord, data: st.DataObject) -> None:
    """A record with one field missing or of another kind is refused by the decoder iff the schema does."""
    body = json.loads(encode_record(record))
    name = data.draw(st.sampled_from(sorted(set(body) - {"extra"})))
    if data.draw(st.booleans()):
        del body[name]
    else:
        body[name] = data.draw(
            st.sampled_from([None, -1, 0, "", "x", [], {}, True, 1.5, 2**53, 1e300, "x" * 300])
        )
    raw = json.dumps(body).encode()
    try:
        RecordModel.model_validate_json(raw)
    except ValidationError:
        with pytest.raises(RecordFormatError):
            decode_record(raw)
    else:
        decode_record(raw)


@pytest.mark.parametrize(
    "value", [0, -1, True, "1", 1e300, float("inf"), MAX_SECONDS + 1, MAX_SECONDS, 1, None]
)
def test_decoder_and_schema_hold_one_bound_of_seconds(value: object) -> None:
    """A limit or a lease's length is refused by both or by neither."""
    whole = json.loads(encode_record(claim(fresh(), LeaseGrant("w"), NOW)))
    for name, field in (("timeouts", "wall_seconds"), ("lease", "seconds")):
        raw = json.dumps({**whole, name: {**whole[name], field: value}}).encode()
        sound = (value in (1, MAX_SECONDS) and value is not True) or (value is None and name == "timeouts")
        assert _reads(decode_record, RecordFormatError, raw) is sound
        assert _reads(RecordModel.model_validate_json, ValidationError, raw) is sound


def _reads(reader: Callable[[bytes], object], refusal: type[Exception], raw: bytes) -> bool:
    try:
        reader(raw)
    except refusal:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("title", "x" * 201),
        ("instructions", "x" * (256 * 1024 + 1)),
        ("idempotency_key", "x" * 257),
        ("agent_session", "x" * 129),
        ("max_attempts", 2**53),
        ("timeouts", Timeouts(wall_seconds=True)),
        ("timeouts", Timeouts(idle_seconds=1e300)),
        ("lease", Lease("w", "33658-09-27T01:46:40.000Z")),
        ("broker", {"tls": True}),
        ("title", "\udcff"),
    ],
)
def test_nothing_is_written_that_would_not_be_read(name: str, value: object) -> None:
    """Whatever a caller puts into a record, it is refused before it could cost the whole job."""
    with pytest.raises(InvalidInputError, match="UTF-8" if value == "\udcff" else name):
        encode_record(fresh(**{name: value}))


_ODD = st.sampled_from(["\ud800", "a\nb", "\x00", "\u2028", "", "x" * 128, "\U0001f600" * 128])


@given(records, st.sampled_from(["title", "agent_session", "detail", "x_other"]), _ODD)
def test_what_is_read_can_be_written_and_go_on(record: JobRecord, name: str, odd: str) -> None:
    """A record that was accepted from the disk takes its events and is written, whatever its texts hold."""
    body = json.loads(
        encode_record(record._replace(status=Status.PENDING, last_seq=0, attempt_seq=0, lease=None))
    )
    raw = json.dumps({**body, name: odd}).encode()
    if not _reads(decode_record, RecordFormatError, raw):
        assert not _reads(RecordModel.model_validate_json, ValidationError, raw)
        return
    decode_record(encode_record(apply_event(decode_record(raw), said(1, "started"), NOW)))


def test_longer_reasons_of_earlier_versions_are_read() -> None:
    """A record with a detail or an owner beyond today's bounds is read, cut, and not lost."""
    body = json.loads(encode_record(claim(fresh(), LeaseGrant("w"), NOW)))
    body.update(detail="x" * 5000, lease={**body["lease"], "owner": "o" * 5000})
    record = decode_record(json.dumps(body).encode())
    assert record.lease is not None
    assert (len(record.detail), len(record.lease.owner)) == (1024, 128)
    RecordModel.model_validate_json(encode_record(record))


@given(st.integers(0, 400))
def test_a_torn_record_is_an_error_never_empty(length: int) -> None:
    """A record cut anywhere is refused; it is never read as something smaller."""
    whole = encode_record(fresh(title="x" * 40)).rstrip()
    with pytest.raises(RecordFormatError):
        decode_record(whole[: min(length, len(whole) - 1)])


def test_no_secret_is_public() -> None:
    """Neither tokens nor a password override are in what people see, nor in a traceback."""
    record = fresh(previous_tokens=("old-token",), broker={"password": "hunter2", "port": 1})
    shown = json.dumps(public_record(record)) + repr(record)
    assert record.auth_token not in shown
    assert "old-token" not in shown
    assert "hunter2" not in shown


def test_transitions_are_the_table() -> None:
    """Exactly the table's changes are allowed; any other names both states."""
    for before, after in itertools.product(Status, Status):
        if (before, after) in TRANSITIONS:
            check_transition(before, after)
        else:
            with pytest.raises(TransitionError, match=f"{before} to {after}"):
                check_transition(before, after)


def test_a_job_runs_through() -> None:
    """started, progress, permission, completed: state, attention, times and result follow."""
    record = claim(fresh(), LeaseGrant("worker:1", 60), NOW)
    assert record.status is Status.RUNNING
    record = apply_event(record, said(1, "started"), NOW)
    record = apply_event(record, said(2, "permission_required", "may I?"), NOW)
    assert record.attention
    record = apply_event(record, said(3, "progress"), NOW)
    assert not record.attention
    record = apply_event(record, said(4, "completed", "fine"), NOW + 5)
    assert (record.status, record.last_seq, record.lease) == (Status.COMPLETED, 4, None)
    assert record.result == {"event": "completed", "detail": "fine", "data": {}}
    assert record.finished_at


def test_applying_twice_changes_nothing() -> None:
    """The fold is idempotent by seq: that is what makes at-least-once delivery exactly once in effect."""
    once = apply_event(fresh(), said(1, "started"), NOW)
    assert apply_event(once, said(1, "started"), NOW + 9) is once


@pytest.mark.parametrize("kind", ["progress", "completed", "error", "permission_required"])
def test_a_pending_job_takes_only_started(kind: str) -> None:
    """The lifecycle refuses anything else, naming the state."""
    with pytest.raises(TransitionError, match="pending"):
        apply_event(fresh(), said(1, kind), NOW)


def test_a_finished_job_takes_nothing() -> None:
    """A second terminal event is refused with the state it met."""
    done = apply_event(apply_event(fresh(), said(1, "started"), NOW), said(2, "error"), NOW)
    with pytest.raises(TransitionError, match="error"):
        apply_event(done, said(3, "completed"), NOW)


def test_an_event_extends_the_lease() -> None:
    """Every event is a sign of life."""
    record = apply_event(claim(fresh(), LeaseGrant("w", 60), NOW), said(1, "started"), NOW + 100)
    assert record.lease == Lease("w", utc_timestamp(NOW + 160), 60)


@pytest.mark.parametrize("seconds", [20, 3600])
def test_whatever_was_granted_holds_for_every_event(seconds: float) -> None:
    """A long lease outlives a rare event, a short one does not grow by it; a renewal grants anew."""
    record = claim(fresh(), LeaseGrant("w", seconds), NOW)
    for seq, kind in enumerate(["started", "progress", "permission_required", "progress"], 1):
        record = apply_event(record, said(seq, kind), NOW + seq * 1800)
        assert record.lease == Lease("w", utc_timestamp(NOW + seq * 1800 + seconds), seconds)
    record = renew(record, LeaseGrant("w", 90), NOW + 9000)
    record = apply_event(record, said(5, "progress"), NOW + 9010)
    assert record.lease == Lease("w", utc_timestamp(NOW + 9100), 90)


def test_a_job_started_without_pick_has_a_lease() -> None:
    """Whoever starts by its first event holds a lease: an hour, or longer where it may be silent longer."""
    record = apply_event(fresh(agent_session="builder"), said(1, "started"), NOW)
    assert record.lease == Lease("worker:builder", utc_timestamp(NOW + 3600), 3600)
    patient = apply_event(fresh(timeouts=Timeouts(idle_seconds=7200)), said(1, "started"), NOW)
    assert patient.lease == Lease("worker", utc_timestamp(NOW + 7200), 7200)
    longest = apply_event(fresh(agent_session="x" * 128), said(1, "started"), NOW)
    assert longest.lease is not None
    assert len(longest.lease.owner) == 128


def test_a_renewal_is_no_event() -> None:
    """A worker that renews and says nothing is idle since its last event."""
    record = apply_event(claim(fresh(), LeaseGrant("w", 60), NOW), said(1, "started"), NOW + 5)
    assert record.idle_since == utc_timestamp(NOW + 5)
    assert renew(record, LeaseGrant("w", 60), NOW + 50).idle_since == record.idle_since
    assert claim(fresh(), LeaseGrant("w", 60), NOW).idle_since == utc_timestamp(NOW)


def test_an_older_record_is_read() -> None:
    """A record from before leases knew their length has the length that stood beside it, or 300 s."""
    body = json.loads(encode_record(claim(fresh(), LeaseGrant("w", 60), NOW)))
    del body["lease"]["seconds"], body["idle_since"]
    for beside, seconds in (({}, 300), ({"lease_seconds": 45.5}, 45.5), ({"lease_seconds": 1e300}, 300)):
        record = decode_record(json.dumps({**body, **beside}).encode())
        assert record.lease == Lease("w", utc_timestamp(NOW + 60), seconds)
        assert record.idle_since is None
        assert decode_record(encode_record(record)) == record


def test_only_the_holder_renews() -> None:
    """A stranger, and a worker whose job went away, are told to stop."""
    record = claim(fresh(), LeaseGrant("w", 60), NOW)
    assert renew(record, LeaseGrant("w", 600), NOW).lease != record.lease
    with pytest.raises(StoppedError):
        renew(record, LeaseGrant("other", 60), NOW)
    with pytest.raises(StoppedError):
        renew(cancel(record, NOW, "no longer needed"), LeaseGrant("w", 60), NOW)


def test_the_next_attempt_has_a_new_key_and_ends_at_the_limit() -> None:
    """A lapsed lease rotates the key; after the last allowed attempt it ends in error, saying why."""
    record = claim(fresh(max_attempts=2), LeaseGrant("w", 60), NOW)
    again = next_attempt(record, new_token(), NOW, "lease ran out")
    assert (again.status, again.attempt, again.previous_tokens) == (Status.PENDING, 2, (record.auth_token,))
    assert again.auth_token != record.auth_token
    over = next_attempt(claim(again, LeaseGrant("w", 60), NOW), new_token(), NOW, "lease ran out")
    assert over.status is Status.ERROR
    assert "2 attempts" in over.detail


def test_attempts_leave_a_bounded_trace() -> None:
    """However often a job is claimed, record and snapshot keep to the latest 16 earlier tokens."""
    record, tokens = fresh(max_attempts=1000), list[str]()
    for _ in range(100):
        tokens.append(record.auth_token)
        record = next_attempt(claim(record, LeaseGrant("w", 60), NOW), new_token(), NOW, "x" * 5000)
    assert record.previous_tokens == tuple(tokens[-16:])
    assert len(encode_record(record)) < 8192
    old = fresh(detail="\x01" * 1024, previous_tokens=tuple(tokens * 40))
    raw = encode_snapshot(old, confirmed_seq=2**53 - 1)
    assert len(raw) < 16_384
    told = decode_snapshot(raw, job_id="0000abcd", token=tokens[-1])
    assert told is not None
    assert told.superseded


def test_cancel_is_idempotent_and_respects_the_end() -> None:
    """Cancelling twice is one cancellation; a finished job cannot be cancelled."""
    once = cancel(fresh(), NOW, "user")
    assert cancel(once, NOW + 1, "user") is once
    with pytest.raises(ConflictError):
        cancel(fail(claim(fresh(), LeaseGrant("w", 60), NOW), NOW, "boom"), NOW, "user")


def test_a_snapshot_is_for_its_holder() -> None:
    """The key's holder verifies it, an earlier holder learns of it, others do not."""
    old = new_token()
    record = fresh(attempt=2, previous_tokens=(old,), last_seq=9)
    raw = encode_snapshot(record, confirmed_seq=7)
    StateModel.model_validate_json(raw)
    current = decode_snapshot(raw, job_id="0000abcd", token=record.auth_token)
    assert current is not None
    assert (current.last_seq, current.superseded) == (7, False)
    replaced = decode_snapshot(raw, job_id="0000abcd", token=old)
    assert replaced is not None
    assert replaced.superseded
    assert decode_snapshot(raw, job_id="0000abcd", token=new_token()) is None
    assert decode_snapshot(raw, job_id="ffffffff", token=record.auth_token) is None
    assert (
        decode_snapshot(raw.replace(b'"last_seq":7', b'"last_seq":8'), job_id="0000abcd", token=old) is None
    )
    assert old.encode() not in raw
    assert record.auth_token.encode() not in raw


@pytest.mark.parametrize("change", [{"status": "paused"}, {"attempt": "2"}, {"status": None}])
def test_a_snapshot_of_a_newer_registry_is_told_apart_from_a_forged_one(change: dict[str, object]) -> None:
    """What is signed and not understood has a name and a remedy of its own."""
    record = fresh()._replace(**change)  # type: ignore[arg-type]  # that is the point
    raw = encode_snapshot(record, confirmed_seq=0)
    with pytest.raises(UnknownStateError) as unknown:
        decode_snapshot(raw, job_id="0000abcd", token=record.auth_token)
    assert "update jobwire" in unknown.value.hint
    assert decode_snapshot(raw, job_id="0000abcd", token=new_token()) is None


def test_a_snapshot_says_which_limit_ended_the_job() -> None:
    """The limit is signed with the rest: neither adding nor removing it is believed."""
    running = claim(fresh(), LeaseGrant("w", 60), NOW)
    record = fail(running, NOW, "no event for 3 s", timeout="idle")
    raw = encode_snapshot(record, confirmed_seq=0)
    StateModel.model_validate_json(raw)
    told = decode_snapshot(raw, job_id="0000abcd", token=record.auth_token)
    assert told is not None
    assert told.timed_out == "idle"
    for forged in (raw.replace(b'"timeout":"idle",', b""), raw.replace(b'"idle"', b'"wall"')):
        assert forged != raw
        assert decode_snapshot(forged, job_id="0000abcd", token=record.auth_token) is None
    assert b"timeout" not in encode_snapshot(running, confirmed_seq=0)
