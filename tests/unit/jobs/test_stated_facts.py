"""What was decided, as a state says it."""

import json

from hypothesis import given
from hypothesis import strategies as st

from jobwire.jobs.fact import MAX_FACTS, Fact, FactKind, facts_in
from jobwire.jobs.models import StateModel
from jobwire.jobs.record import JobRecord
from jobwire.jobs.snapshot import decode_snapshot, encode_snapshot

STAMP = "2026-01-31T12:00:00.000Z"
RECORD = JobRecord("0000abcd", "t" * 43, STAMP, STAMP)
REGISTERED = Fact(
    RECORD.job_id, STAMP, 1, FactKind.REGISTERED, STAMP, 1, "docs", "ana", "by hand", labels={"team": "a"}
)
ATTEMPTS = [
    Fact(RECORD.job_id, STAMP, 2 + number, kind, STAMP, 1 + number // 2, "docs", "pane-7")
    for number, kind in enumerate((FactKind.CLAIMED, FactKind.REQUEUED) * 100)
]


def state(facts: list[Fact]) -> bytes:
    """Return the state that says them."""
    return encode_snapshot(RECORD, confirmed_seq=0, facts=facts)


def changed(raw: bytes, **fields: object) -> bytes:
    """Return a state with other fields."""
    return json.dumps(json.loads(raw) | fields).encode()


@given(st.integers(0, len(ATTEMPTS)))
def test_a_state_says_the_registration_and_the_latest(count: int) -> None:
    """What was decided is read as it was said; of very many decisions the first and the latest."""
    facts = [REGISTERED, *ATTEMPTS[:count]]
    raw = state(facts)
    StateModel.model_validate_json(raw)
    found = facts_in(raw, job_id=RECORD.job_id)
    assert found == (facts if len(facts) <= MAX_FACTS else [REGISTERED, *facts[1 - MAX_FACTS :]])
    assert decode_snapshot(raw, job_id=RECORD.job_id, token=RECORD.auth_token) is not None


def test_a_state_stays_a_small_message() -> None:
    """Texts of any length and script do not make it larger than 16 KiB; the latest facts are in it."""
    bulk = {f"{'n' * 30}{number:02}": "\U0001f4a9" * 64 for number in range(16)}
    long = [fact._replace(cause="\x01" * 512, by="\x01" * 128) for fact in ATTEMPTS]
    first = REGISTERED._replace(labels=bulk, cause="\x01" * 512)
    raw = state([first, *long])
    assert len(raw) < 16_384
    found = facts_in(raw, job_id=RECORD.job_id)
    assert (found[0], found[-1]) == (first, long[-1])


def test_what_is_not_known_here_is_left_out() -> None:
    """A later version's kinds, and what is no fact at all, cost no other fact; an older state has none."""
    raw = state([REGISTERED, ATTEMPTS[0]])
    said = json.loads(raw)["facts"]
    later = changed(raw, facts=[said[0] | {"mood": "good"}, said[1] | {"kind": "hibernated"}, 7, None, [1]])
    assert facts_in(later, job_id=RECORD.job_id) == [REGISTERED]
    for nothing in (b"", b"{", changed(raw, facts="all"), changed(raw, created_at=None), state([])):
        assert facts_in(nothing, job_id=RECORD.job_id) == []
    assert facts_in(raw, job_id="ffffffff") == []
