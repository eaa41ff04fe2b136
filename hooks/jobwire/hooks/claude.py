"""Claude Code: its hooks' input as signs, and answers in its form (https://code.claude.com/docs/en/hooks)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.hooks.signs import Answered, Question, Said, Sign, denial_of, objects, output_of, said_of, word

if TYPE_CHECKING:
    from collections.abc import Mapping

QUESTIONS = "AskUserQuestion"
_MOST = 16
# Its events -> what they are here; all others are none of the job's.
EVENTS: Mapping[str, Sign] = {
    "SessionStart": Sign.BEGUN,
    "UserPromptSubmit": Sign.PROMPTED,
    "PreToolUse": Sign.TOOL_BEFORE,
    "PermissionRequest": Sign.PERMISSION,
    "PostToolUse": Sign.TOOL_AFTER,
    "PostToolUseFailure": Sign.TOOL_AFTER,
    "PermissionDenied": Sign.SETTLED,
    "Notification": Sign.NOTIFIED,
    "Stop": Sign.TURN_END,
    "StopFailure": Sign.FAILED,
    "SessionEnd": Sign.ENDED,
}
_TEXT = ("prompt", "last_assistant_message", "message", "reason", "error_details")
_KIND = ("source", "notification_type", "error", "reason")
# Where `additionalContext` is read.
_CONTEXT = frozenset(
    {"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop"}
)


def read(body: Mapping[str, object]) -> Said | None:
    """Return what the hook says; None for what is none of our business, or in no form that we know."""
    said = said_of(body, EVENTS, text=_TEXT, kind=_KIND)
    if said is None:
        return None
    return said._replace(
        questions=_questions(said.given) if said.tool == QUESTIONS else (),
        background=_length(body, "background_tasks"),
        failed=said.event == "PostToolUseFailure",
        suggestions=tuple(objects(body.get("permission_suggestions"))[:_MOST]),
    )


def write(said: Said, answered: Answered) -> dict[str, object] | None:
    """Return the hook's answer, None for none."""
    # At a turn's end: a decision to block would be shown as an error of the hook.
    context = answered.go_on if said.sign is Sign.TURN_END else answered.context
    return output_of(said, answered, _decision(said, answered), tells=_CONTEXT, context=context)


def _decision(said: Said, answered: Answered) -> dict[str, object] | None:
    if answered.verdict == "deny":
        return denial_of(answered)
    if said.questions:
        # "allow" alone would answer each question with nothing.
        if not answered.replies:
            return None
        return {"behavior": "allow", "updatedInput": {**said.given, "answers": dict(answered.replies)}}
    if answered.verdict != "allow":
        return None
    if answered.always and said.suggestions:
        # For this conversation: nothing is written into the user's settings.
        rules = [{**one, "destination": "session"} for one in said.suggestions]
        return {"behavior": "allow", "updatedPermissions": rules}
    return {"behavior": "allow"}


def _questions(given: Mapping[str, object]) -> tuple[Question, ...]:
    found = []
    for one in objects(given.get("questions"))[:_MOST]:
        text = word(one, "question", most=2048)
        labels = [word(option, "label", most=512) for option in objects(one.get("options"))[:_MOST]]
        if text:
            found.append(Question(text, tuple(dict.fromkeys(label for label in labels if label))))
    return tuple(found)


def _length(body: Mapping[str, object], name: str) -> int:
    value = body.get(name)
    return len(value) if isinstance(value, list) else 0
