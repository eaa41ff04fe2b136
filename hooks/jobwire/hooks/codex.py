"""Codex: its hooks' input as signs, and answers in its form (https://developers.openai.com/codex/hooks).

Its hook for permissions is run before the question is drawn: while one waits, nobody can answer at the pane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.hooks.signs import MAX_CONTEXT, Answered, Said, Sign, denial_of, output_of, said_of, word, words

if TYPE_CHECKING:
    from collections.abc import Mapping

EVENTS: Mapping[str, Sign] = {
    "SessionStart": Sign.BEGUN,
    "UserPromptSubmit": Sign.PROMPTED,
    "PreToolUse": Sign.TOOL_BEFORE,
    "PermissionRequest": Sign.PERMISSION,
    "PostToolUse": Sign.TOOL_AFTER,
    "Stop": Sign.TURN_END,
}
# The plain `notify` program: the one event that it knows.
_TURN_COMPLETE = "agent-turn-complete"
_CONTEXT = frozenset({"SessionStart", "UserPromptSubmit", "PostToolUse"})


def read(body: Mapping[str, object]) -> Said | None:
    """Return what the hook says; None for what is none of our business, or in no form that we know."""
    if body.get("type") == _TURN_COMPLETE:
        return Said(
            Sign.TURN_END,
            _TURN_COMPLETE,
            conversation=word(body, "thread-id"),
            directory=word(body, "cwd", most=4096),
            text=words(body, "last-assistant-message"),
            asked_again=True,
        )
    return said_of(body, EVENTS, text=("prompt", "last_assistant_message"), kind=("source",))


def write(said: Said, answered: Answered) -> dict[str, object] | None:
    """Return the hook's answer, None for none; what Codex does not take would make it refuse."""
    if said.event == _TURN_COMPLETE:
        return None
    if said.sign is Sign.TURN_END and answered.go_on:
        return {"decision": "block", "reason": answered.go_on[:MAX_CONTEXT]}
    decision = denial_of(answered) if answered.verdict == "deny" else {"behavior": answered.verdict}
    return output_of(
        said, answered, decision if answered.verdict else None, tells=_CONTEXT, context=answered.context
    )
