"""Events: composing, signing, and the publisher's promise that admission will accept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import InvalidInputError
from jobwire.core.signature import new_token, verify_bytes
from jobwire.core.topics import Topics
from jobwire.jobs.admission import Accepted, JobView, admit
from jobwire.jobs.event import MAX_DETAIL, MAX_PAYLOAD, Event, compose, encode_signed
from jobwire.jobs.lifecycle import Status

TOPICS = Topics()
text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40)
plain = st.dictionaries(
    text.filter(lambda key: key != "hmac_sig"),
    st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(-(2.0**53) + 1, 2.0**53 - 1)
    | st.floats(1e21, 1e300)
    | text
    | st.booleans(),
    max_size=5,
)


@given(
    detail=text,
    data=plain,
    event=st.sampled_from(["progress", "permission_required", "completed", "error"]),
    moment=st.floats(0, 4e9),
)
def test_whatever_is_composed_is_admitted(
    detail: str, data: dict[str, object], event: str, moment: float
) -> None:
    """No worker's words that compose() lets through are refused by a consumer."""
    token = new_token()
    view = JobView(token=token, status=Status.RUNNING, last_seq=1)
    said = compose(
        seq=2, job_id="0000abcd", event=event, timestamp=utc_timestamp(moment), detail=detail, data=data
    )
    verdict = admit(
        TOPICS, TOPICS.events("0000abcd"), encode_signed(said, token), retained=said.terminal, job=view
    )
    assert isinstance(verdict, Accepted), verdict
    assert verdict.event.detail == detail


@pytest.mark.parametrize(
    "change",
    [
        {"seq": 0},
        {"seq": 2**53},
        {"job_id": "0000ABCD"},
        {"job_id": "../../ab"},
        {"event": "done"},
        {"detail": "x" * (MAX_DETAIL + 1)},
        {"data": {"hmac_sig": "x"}},
    ],
)
def test_bad_words_are_refused(change: dict[str, object]) -> None:
    """Each rule of the event table is enforced before anything is signed."""
    good: dict[str, object] = {
        "seq": 1,
        "job_id": "0000abcd",
        "event": "started",
        "timestamp": utc_timestamp(0),
        "detail": "",
        "data": {},
    }
    with pytest.raises(InvalidInputError):
        compose(**{**good, **change})  # type: ignore[arg-type]


def test_detail_counts_characters_not_bytes() -> None:
    """1,024 characters of any script fit."""
    assert compose(
        seq=1,
        job_id="0000abcd",
        event="started",
        timestamp=utc_timestamp(0),
        detail="\U0001f600" * MAX_DETAIL,
        data={},
    )


def test_an_oversize_payload_is_refused_by_its_publisher() -> None:
    """More than 64 KiB never reaches the broker."""
    event = Event(1, "0000abcd", "progress", utc_timestamp(0), "", {"text": "x" * MAX_PAYLOAD})
    with pytest.raises(InvalidInputError, match="bytes"):
        encode_signed(event, new_token())


@pytest.mark.parametrize("signature", [None, "", 1, "A" * 64, "0" * 63, "0" * 65, "é" * 64])
def test_a_malformed_signature_is_false_not_an_exception(signature: object) -> None:
    """Verification answers False for anything but the right 64 lower-case hex digits."""
    assert not verify_bytes(b"message", signature, new_token())


def test_timestamps_are_utc_with_z() -> None:
    """The timestamp form is ISO 8601 UTC with milliseconds."""
    assert utc_timestamp(1_700_000_000.5) == "2023-11-14T22:13:20.500Z"
