"""Facts: whatever is written is read back, and nothing else is taken for one."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.bounds import MAX_NAME, MAX_REASON
from jobwire.core.errors import InvalidInputError
from jobwire.core.topics import Topics
from jobwire.jobs.admission import Reason, Rejected, parse
from jobwire.jobs.fact import MAX_FACT, Fact, FactKind, decode_fact, encode_fact
from jobwire.jobs.labels import MAX_LABEL_VALUE, MAX_LABELS, check_labels, label_pairs

STAMP = "2026-01-31T12:00:00.000Z"
FACT = Fact("1a2b3c4d", STAMP, 3, FactKind.CANCELLED, STAMP, 1, by="ana", cause="enough")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
labels = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9_]{0,31}", fullmatch=True),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=MAX_LABEL_VALUE),
    max_size=MAX_LABELS,
)
facts = st.builds(
    Fact,
    job_id=st.from_regex(r"[0-9a-f]{8}", fullmatch=True),
    created_at=st.just(STAMP),
    line=st.integers(0, 2**53 - 1),
    kind=st.sampled_from(list(FactKind)),
    at=st.just(STAMP),
    attempt=st.integers(1, 1000),
    session=texts,
    by=texts,
    cause=texts,
    timeout=st.sampled_from(["", "idle", "wall", "pending"]),
    labels=labels,
)


@given(fact=facts)
def test_every_fact_that_is_written_is_read_back(fact: Fact) -> None:
    """The reader takes what the writer takes, and gives the same fact."""
    assert decode_fact(encode_fact(fact), job_id=fact.job_id) == fact


def test_the_largest_fact_fits() -> None:
    """Every text at its longest, in the characters that need the most bytes, is below the bound."""
    names = {f"{'a' * 30}{number:02d}": "\U0001f600" * MAX_LABEL_VALUE for number in range(MAX_LABELS)}
    long = FACT._replace(
        by="\x01" * MAX_NAME, session="\x01" * MAX_NAME, cause="\x01" * MAX_REASON, labels=names
    )
    payload = encode_fact(long)
    assert len(payload) <= MAX_FACT
    assert decode_fact(payload, job_id=long.job_id) == long


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "completed"},
        {"line": -1},
        {"attempt": 0},
        {"at": "yesterday"},
        {"by": "x" * (MAX_NAME + 1)},
        {"cause": "x" * (MAX_REASON + 1)},
        {"timeout": "lunch"},
        {"labels": {"Team": "docs"}},
        {"labels": {"team": ""}},
        {"labels": {f"l{number}": "x" for number in range(MAX_LABELS + 1)}},
        {"job_id": "../../ab"},
        {"schema_version": 2},
    ],
)
def test_what_is_out_of_bounds_is_no_fact(change: dict[str, Any]) -> None:
    """A field that no fact has is refused by the writer and taken for nothing by the reader."""
    body = json.loads(encode_fact(FACT)) | change
    assert decode_fact(json.dumps(body).encode(), job_id=FACT.job_id) is None
    if "schema_version" not in change:
        with pytest.raises(InvalidInputError):
            encode_fact(FACT._replace(**change))


@given(payload=st.binary(max_size=200))
def test_other_bytes_are_no_fact(payload: bytes) -> None:
    """Whatever stands in a foreign journal, reading it raises nothing."""
    assert decode_fact(payload, job_id=FACT.job_id) is None


def test_a_fact_of_another_job_is_none() -> None:
    """The topic says which job an entry speaks of; a payload that says another is not believed."""
    assert decode_fact(encode_fact(FACT), job_id="00000000") is None


def test_a_message_on_the_topic_of_facts_is_refused() -> None:
    """A worker who publishes there, to a recorder that subscribes to everything, has said no event."""
    topics = Topics()
    refused = parse(topics, topics.facts(FACT.job_id), encode_fact(FACT))
    assert isinstance(refused, Rejected)
    event = {
        "schema_version": 1,
        "seq": 1,
        "job_id": FACT.job_id,
        "event": "started",
        "timestamp": STAMP,
        "detail": "",
        "data": {},
    }
    refused = parse(topics, topics.facts(FACT.job_id), json.dumps(event).encode())
    assert isinstance(refused, Rejected)
    assert refused.reason is Reason.TOPIC_MISMATCH


@pytest.mark.parametrize(
    "pairs", [["team"], ["=docs"], ["Team=docs"], ["team=", "x=1"], ["team=a\nb"], ["a=1", "a=2"]]
)
def test_labels_are_named_and_printable(pairs: list[str]) -> None:
    """A label that no column could be named by, or that breaks a line, is refused with a remedy."""
    with pytest.raises(InvalidInputError) as refused:
        check_labels(label_pairs(pairs))
    assert refused.value.hint


def test_seventeen_labels_are_too_many() -> None:
    """The bound is sixteen."""
    check_labels({f"l{number}": "x" for number in range(MAX_LABELS)})
    with pytest.raises(InvalidInputError):
        check_labels({f"l{number}": "x" for number in range(MAX_LABELS + 1)})
