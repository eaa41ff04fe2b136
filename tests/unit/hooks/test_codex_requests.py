"""What Codex's app-server asks is shown as it will be carried out, and answered in its form."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.hooks.codex_requests import (
    CHANGE,
    COMMAND,
    FOR_SESSION,
    QUESTIONS,
    asked_in,
    changes_in,
    ended_in,
    error_kind,
    result_for,
)
from jobwire.hooks.signs import IDLE, NOTHING, Answered, Said, Sign, shown

RECORDED = json.loads((Path(__file__).parent / "inputs" / "codex_server.json").read_text())["inputs"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
FIELDS = (
    "threadId", "itemId", "command", "kind", "reason", "networkApprovalContext", "availableDecisions",
    "questions", "turn", "item",
)  # fmt: skip


def first(method: str) -> dict[str, Any]:
    """Return the parameters of the first recorded message of a method."""
    found: dict[str, Any] = next(one["params"] for one in RECORDED if one["method"] == method)
    return found


def asked(method: str, params: dict[str, Any], changes: list[object] | None = None) -> Said:
    """Return what a request asks."""
    said = asked_in(method, "0", params, changes or [])
    assert said is not None
    return said


def test_a_recorded_command_is_asked_about() -> None:
    """The command stands there without the shell around it, and each request has a name of its own."""
    said = asked(COMMAND, first(COMMAND))
    assert (said.sign, said.tool, shown(said.given)) == (Sign.PERMISSION, "Bash", "touch made.txt")
    assert said.given["description"] == "Make it?"
    assert said.conversation
    again = asked_in(COMMAND, "1", first(COMMAND))
    assert again is not None
    assert again.call != said.call


@pytest.mark.parametrize(
    ("command", "plain"),
    [
        ("/bin/bash -lc 'rm -r \"a b\"; echo x'", 'rm -r "a b"; echo x'),
        ("python3 -c 'print(1)'", "python3 -c 'print(1)'"),
        ("bash script.sh x", "bash script.sh x"),
        ("bash -lc 'a' 'b'", "bash -lc 'a' 'b'"),
        ("bash -lc 'unclosed", "bash -lc 'unclosed"),
    ],
)
def test_only_the_shell_around_a_script_is_left_out(command: str, plain: str) -> None:
    """Whatever else is to be run stands there as it is."""
    assert shown(asked(COMMAND, {**first(COMMAND), "command": command}).given) == plain


def test_what_a_person_elsewhere_cannot_judge_is_left_to_the_pane() -> None:
    """Input of a running command, changes nobody has seen, a secret, and what is not known here."""
    assert asked_in(COMMAND, "0", {**first(COMMAND), "kind": "writeStdin"}) is None
    assert asked_in(CHANGE, "0", {"threadId": "t", "itemId": "i"}) is None
    secret = {"questions": [{"id": "q", "question": "Token?", "isSecret": True}]}
    assert asked_in(QUESTIONS, "0", secret) is None
    assert asked_in("item/permissions/requestApproval", "0", first(COMMAND)) is None


def test_changes_of_files_are_shown_whole() -> None:
    """Each path with its difference."""
    changes = [{"path": "a.py", "diff": "-1\n+2"}, {"path": "b.py", "diff": "+3"}]
    item, found = changes_in({"item": {"type": "fileChange", "id": "i", "changes": changes}})
    assert item == "i"
    said = asked(CHANGE, {"threadId": "t", "itemId": "i"}, list(found))
    assert shown(said.given) == "a.py\n-1\n+2\nb.py\n+3"
    assert result_for(said, {}, Answered("allow", always=True)) == {"decision": FOR_SESSION}


def test_answers_have_its_form() -> None:
    """Allowed once or for good, denied so that the turn goes on, and nothing where nobody answered."""
    params = first(COMMAND)
    said = asked(COMMAND, params)
    assert result_for(said, params, Answered("allow")) == {"decision": "accept"}
    # It offers no "for the session" here, whatever a person said.
    assert result_for(said, params, Answered("allow", always=True)) == {"decision": "accept"}
    assert result_for(said, params, Answered("deny", words="no")) == {"decision": "decline"}
    assert result_for(said, params, NOTHING) is None


def test_questions_are_answered_by_their_ids() -> None:
    """Each answer goes to the question that it is for."""
    options = [{"label": "yes", "description": ""}, {"label": "no", "description": ""}]
    params = {
        "questions": [
            {"id": "q1", "question": "Go on?", "options": options},
            {"id": "q2", "question": "Why?"},
        ]
    }
    said = asked(QUESTIONS, params)
    assert [(one.text, one.choices) for one in said.questions] == [("Go on?", ("yes", "no")), ("Why?", ())]
    answered = Answered("allow", replies={"Go on?": "yes", "Why?": "because"})
    assert result_for(said, params, answered) == {
        "answers": {"q1": {"answers": ["yes"]}, "q2": {"answers": ["because"]}}
    }
    assert result_for(said, params, NOTHING) is None


def test_recorded_ends_of_turns() -> None:
    """One that is done has its last words; a failed one says whether it may be tried again."""
    done, failed = (ended_in(one["params"]) for one in RECORDED if one["method"] == "turn/completed")
    assert done is not None
    assert (done.sign, done.text, done.asked_again) == (Sign.TURN_END, "I made it.", True)
    assert failed is not None
    assert (failed.sign, failed.kind) == (Sign.FAILED, "server_error")
    stopped = ended_in({"threadId": "t", "turn": {"status": "interrupted"}})
    assert stopped == Said(Sign.NOTIFIED, "turn/completed", "t", kind=IDLE)


@pytest.mark.parametrize(
    ("info", "kind"),
    [
        ("rateLimitExceeded", "rate_limit"),
        ("unauthorized", "unauthorized"),
        ({"httpConnectionFailed": {"httpStatusCode": None}}, "server_error"),
        ({"responseStreamDisconnected": {"httpStatusCode": 503}}, "server_error"),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, "rate_limit"),
        ({"httpConnectionFailed": {"httpStatusCode": 401}}, "http_401"),
        (None, "unknown"),
    ],
)
def test_kinds_of_errors(info: object, kind: str) -> None:
    """What may be over in a while has a kind that is tried again; a key that is refused has not."""
    assert error_kind(info) == kind


@given(
    method=st.sampled_from([COMMAND, CHANGE, QUESTIONS, "other"]),
    params=st.dictionaries(st.sampled_from(FIELDS), JSON),
    changes=st.lists(JSON, max_size=3),
)
def test_no_message_breaks_it(method: str, params: dict[str, Any], changes: list[object]) -> None:
    """Whatever a later version sends, it is read or left to the pane."""
    said = asked_in(method, "0", params, changes)
    if said is not None:
        result_for(said, params, Answered("allow"))
    ended_in(params)
    changes_in(params)
