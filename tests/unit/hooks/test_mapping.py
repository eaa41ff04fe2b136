"""Recorded inputs of real programs become signs, and answers are written in each program's form."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.hooks import claude, codex, opencode
from jobwire.hooks.kinds import NAMES, kind_of
from jobwire.hooks.raw_input import MAX_INPUT, NoHookInputError, parse
from jobwire.hooks.signs import NOTHING, Answered, Said, Sign, digest_of, edited, line_of, shown

INPUTS = Path(__file__).with_name("inputs")
MODULES = {"claude": claude, "codex": codex, "opencode": opencode}


def recorded(agent: str) -> list[dict[str, Any]]:
    """Return what the program gave its hooks."""
    found: list[dict[str, Any]] = json.loads((INPUTS / f"{agent}.json").read_text())["inputs"]
    return found


def first(agent: str, event: str) -> dict[str, Any]:
    """Return the first recorded input of an event."""
    return next(one for one in recorded(agent) if one.get("hook_event_name", one.get("type")) == event)


def sign(agent: str, event: str) -> Said:
    """Return what that input says."""
    said = kind_of(agent).read(first(agent, event))
    assert said is not None
    return said


@pytest.mark.parametrize("agent", sorted(NAMES))
def test_every_recorded_input_is_understood(agent: str) -> None:
    """Each input that a real program gave is a sign with its conversation."""
    for body in recorded(agent):
        said = MODULES[agent].read(body)
        assert said is not None
        assert said.conversation == (body.get("session_id") or body["properties"]["sessionID"])
        assert said.directory == "/srv/work"


def test_claudes_signs() -> None:
    """Tools, their inputs, questions and last words are read."""
    asked = sign("claude", "PermissionRequest")
    assert (asked.sign, asked.tool, asked.given["command"]) == (Sign.PERMISSION, "Bash", "touch hello.txt")
    assert asked.suggestions
    assert sign("claude", "PostToolUseFailure").failed
    ended = sign("claude", "Stop")
    assert (ended.sign, ended.text, ended.background, ended.asked_again) == (
        Sign.TURN_END,
        "The file is there.",
        0,
        False,
    )
    failed = sign("claude", "StopFailure")
    assert (failed.sign, failed.kind) == (Sign.FAILED, "unknown")


def test_claudes_questions() -> None:
    """A question with its choices is read from the tool that asks it."""
    bodies = [one for one in recorded("claude") if one.get("tool_name") == "AskUserQuestion"]
    asked = claude.read(next(one for one in bodies if one["hook_event_name"] == "PermissionRequest"))
    assert asked is not None
    assert [(one.text, one.choices) for one in asked.questions] == [("Which colour?", ("red", "blue"))]


def test_a_call_has_one_digest_before_while_and_after_it_is_asked_about() -> None:
    """What closes a request is found, though each event carries other fields beside."""
    for agent in ("claude", "codex"):
        digests = {
            said.digest
            for body in recorded(agent)
            if (said := MODULES[agent].read(body)) is not None
            and said.given.get("command") == "touch hello.txt"
        }
        assert len(digests) == 1, agent
    bodies = [one for one in recorded("claude") if one.get("tool_name") == "AskUserQuestion"]
    assert len({said.digest for said in map(claude.read, bodies) if said is not None}) == 1


def test_claudes_answers() -> None:
    """Allow, deny with words, always, context and going on are written as Claude reads them."""
    asked = sign("claude", "PermissionRequest")
    assert claude.write(asked, Answered("allow")) == {
        "hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}
    }
    denied = claude.write(asked, Answered("deny", words="use the copy"))
    assert denied is not None
    assert denied["hookSpecificOutput"]["decision"] == {"behavior": "deny", "message": "use the copy"}  # type: ignore[index]
    always = claude.write(asked, Answered("allow", always=True))
    assert always is not None
    rules = always["hookSpecificOutput"]["decision"]["updatedPermissions"]  # type: ignore[index]
    assert {rule["destination"] for rule in rules} == {"session"}
    after = sign("claude", "PostToolUse")
    told = claude.write(after, Answered(context="x" * 20_000))
    assert told is not None
    assert len(told["hookSpecificOutput"]["additionalContext"]) < 10_000  # type: ignore[index]
    ended = sign("claude", "Stop")
    assert claude.write(ended, Answered(go_on="more")) == {
        "hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "more"}
    }


def test_an_allowed_question_without_answers_is_left_to_the_pane() -> None:
    """Claude would take a bare allowance for empty answers."""
    bodies = [one for one in recorded("claude") if one.get("tool_name") == "AskUserQuestion"]
    asked = claude.read(next(one for one in bodies if one["hook_event_name"] == "PermissionRequest"))
    assert asked is not None
    assert claude.write(asked, Answered("allow")) is None
    answered = claude.write(asked, Answered("allow", replies={"Which colour?": "blue"}))
    assert answered is not None
    given = answered["hookSpecificOutput"]["decision"]["updatedInput"]  # type: ignore[index]
    assert given["answers"] == {"Which colour?": "blue"}
    assert given["questions"] == asked.given["questions"]


def test_codexs_answers_hold_nothing_that_it_refuses() -> None:
    """Codex fails a hook that answers updatedInput, updatedPermissions or interrupt."""
    asked = sign("codex", "PermissionRequest")
    for answered in (Answered("allow", always=True), Answered("deny", words="no")):
        written = codex.write(asked, answered)
        assert written is not None
        decision = written["hookSpecificOutput"]["decision"]  # type: ignore[index]
        assert set(decision) <= {"behavior", "message"}
    notified = codex.read({"type": "agent-turn-complete", "thread-id": "t", "last-assistant-message": "done"})
    assert notified is not None
    assert (notified.sign, notified.text) == (Sign.TURN_END, "done")
    assert codex.write(notified, Answered(go_on="more")) is None


def test_opencodes_events() -> None:
    """What the plugin hands over is read, and the answer names the request."""
    asked = sign("opencode", "permission.asked")
    assert (asked.sign, asked.tool, asked.given["command"]) == (Sign.PERMISSION, "bash", "touch made.txt")
    assert asked.call == sign("opencode", "permission.replied").call
    assert opencode.write(asked, Answered("deny", words="not now")) == {
        "reply": "reject",
        "requestID": asked.call,
        "message": "not now",
    }
    ends = [
        said for body in recorded("opencode") if (said := opencode.read(body)) and said.sign == "turn_end"
    ]
    assert [(one.text, one.asked_again) for one in ends] == [
        ("I made it.", False),
        ("x\n\ncompleted: made.txt is there", True),
    ]


def test_a_turn_of_opencode_that_a_person_ends_is_no_failure() -> None:
    """Escape is said as an error of the turn: the agent waits at its prompt, and no service failed."""
    error = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
    stopped = opencode.read({"type": "session.error", "properties": {"sessionID": "s", "error": error}})
    assert stopped is not None
    assert (stopped.sign, stopped.kind) == (Sign.NOTIFIED, "idle_prompt")
    failed = opencode.read(
        {"type": "session.error", "properties": {"sessionID": "s", "error": {**error, "name": "APIError"}}}
    )
    assert failed is not None
    assert (failed.sign, failed.text) == (Sign.FAILED, "Aborted")


@pytest.mark.parametrize("agent", sorted(NAMES))
@given(
    body=st.dictionaries(
        st.sampled_from(
            [
                "hook_event_name",
                "type",
                "tool_name",
                "tool_input",
                "properties",
                "session_id",
                "cwd",
                "questions",
            ]
        )
        | st.text(max_size=8),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.text(max_size=12)
            | st.sampled_from([*claude.EVENTS, *codex.EVENTS, *opencode.EVENTS]),
            lambda inner: (
                st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
            ),
            max_leaves=12,
        ),
        max_size=8,
    ),
    answered=st.builds(
        Answered,
        verdict=st.sampled_from(["", "allow", "deny"]),
        words=st.text(max_size=20),
        context=st.text(max_size=20),
        go_on=st.text(max_size=20),
        always=st.booleans(),
    ),
)
def test_nothing_that_an_agent_says_breaks_it(agent: str, body: dict[str, Any], answered: Answered) -> None:
    """Whatever fields of whatever kind: a sign or none, and an answer that is JSON."""
    kind = kind_of(agent)
    said = kind.read(body)
    if said is not None:
        assert isinstance(line_of(said.tool, said.given), str)
        assert isinstance(shown(said.given), str)
        assert len(said.digest) == 32
        json.dumps(kind.write(said, answered))
        assert kind.write(said, NOTHING) is None


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b"null", b'{"a":', b"\xff\xfe", b"[" * 100_000, b'"x"'])
def test_what_is_no_object_says_why(raw: bytes) -> None:
    """Truncated, wrong and deep input is refused in words, not by a trace."""
    with pytest.raises(NoHookInputError):
        parse(raw)


def test_large_inputs_are_bounded() -> None:
    """Ten megabytes are read, and a person is shown their beginning and end only."""
    command = "echo start; " + "x" * (10 * 1024 * 1024) + "; rm -rf /"
    body = parse(
        json.dumps(
            {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": command}}
        ).encode()
    )
    said = claude.read(body)
    assert said is not None
    text = shown(said.given)
    assert len(text) < 100_000 < MAX_INPUT
    assert text.startswith("echo start")
    assert text.endswith("rm -rf /")


def test_files_that_a_tool_changes() -> None:
    """Edits name their file, patches all of theirs, commands none."""
    assert edited("Edit", {"file_path": "a.py"}) == ("a.py",)
    assert edited("NotebookEdit", {"notebook_path": "n.ipynb"}) == ("n.ipynb",)
    patch = "*** Begin Patch\n*** Update File: src/a.py\n@@\n*** Add File: b.py\n*** Move to: c.py\n"
    assert edited("apply_patch", {"command": patch}) == ("src/a.py", "b.py", "c.py")
    assert edited("Bash", {"command": "rm a.py"}) == ()
    assert edited("Read", {"file_path": "a.py"}) == ()


def test_a_digest_tells_calls_apart() -> None:
    """Another command, another tool: another digest."""
    assert digest_of("Bash", {"command": "a"}) != digest_of("Bash", {"command": "b"})
    assert digest_of("Bash", {"command": "a"}) != digest_of("Shell", {"command": "a"})
    assert digest_of("Edit", {"file_path": "a", "old_string": "x"}) != digest_of(
        "Edit", {"file_path": "a", "old_string": "y"}
    )
