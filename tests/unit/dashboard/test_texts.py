"""What strangers write: on the page's history and in the status line."""

import json

import pytest

from jobwire.core.clock import utc_timestamp
from jobwire.dashboard.status import Line, render_json, render_line
from jobwire.dashboard.timeline import entry, hidden, shown_record, text_of
from jobwire.jobs.record import JobRecord

STAMP = utc_timestamp(1_767_225_600.0)
TOKEN, OLD = "t" * 43, "o" * 43
RECORD = JobRecord(
    "0a1b2c3d", TOKEN, STAMP, STAMP, previous_tokens=(OLD,), broker={
        "broker": "mq", "port": 8883, "password": "p", "keyfile": "/k/e.y", "password_file": "/p/w"
    },
)  # fmt: skip


def test_record_for_the_page_holds_no_secret() -> None:
    """Token, earlier tokens, password and the paths of keys stay in the record."""
    text = json.dumps(shown_record(RECORD._replace(detail=f"my token is {TOKEN}", instructions=OLD)))
    for secret in (TOKEN, OLD, "/k/e.y", "/p/w", '"p"'):
        assert secret not in text
    assert "8883" in text


def test_history_entry_holds_no_signature_and_no_token() -> None:
    """Of an audit line the page gets what a person reads, without signature, digest and tokens."""
    line = {
        "at": STAMP, "kind": "event", "source": "registry", "verdict": "accepted", "attempt": 1, "seq": 2,
        "digest": "abc", "event": {"event": "progress", "detail": f"see {TOKEN}", "timestamp": STAMP,
        "data": {"hmac_sig": "f" * 64, "nested": [{"deep": OLD}], TOKEN: 1}},
    }  # fmt: skip
    text = json.dumps(entry(line, RECORD))
    assert not [word for word in (TOKEN, OLD, "hmac_sig", "abc", "f" * 64) if word in text]
    assert "nested" in text


@pytest.mark.parametrize(
    "line", [{}, {"kind": "damaged"}, {"at": "x", "event": []}, {"at": None, "event": "x"}]
)
def test_damaged_history_line_is_shown_as_such(line: dict[str, object]) -> None:
    """A line that is not as we write it is no error."""
    assert entry(line, RECORD)["at"] is None
    assert text_of(entry(line, RECORD))


def test_unreadable_message_is_shown_as_text() -> None:
    """A refused message that is not JSON shows the evidence that was kept."""
    assert entry({"kind": "event", "payload": "<b>"}, RECORD)["detail"] == "<b>"


def test_hidden_leaves_other_values() -> None:
    """Numbers, flags and null pass as they are."""
    assert hidden({"a": [1, True, None, 2.5]}, RECORD) == {"a": [1, True, None, 2.5]}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (Line(0, 0, 0), "0 running"),
        (Line(3, 1, 2), "3 running, 1 waits for you, 2 failed"),
        (Line(0, 2, 0), "0 running, 2 wait for you"),
    ],
)
def test_status_line(line: Line, text: str) -> None:
    """The line says what runs, who waits and what failed; zeros are left out."""
    assert render_line(line) == text
    assert json.loads(render_json(line)) == line._asdict()
