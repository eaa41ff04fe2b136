"""opencode: what our plugin in it hands over, and answers that the plugin carries out.

Its events have no answer of their own: the plugin writes `{"type": …, "properties": …}` of each event, and
of what it is told before a tool, and replies to the server inside opencode with what is printed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.hooks.signs import IDLE, Answered, Said, Sign, word, words

if TYPE_CHECKING:
    from collections.abc import Mapping

EVENTS: Mapping[str, Sign] = {
    "session.created": Sign.BEGUN,
    "chat.message": Sign.PROMPTED,
    "tool.execute.before": Sign.TOOL_BEFORE,
    "tool.execute.after": Sign.TOOL_AFTER,
    "permission.asked": Sign.PERMISSION,
    "permission.replied": Sign.SETTLED,
    "session.idle": Sign.TURN_END,
    "session.error": Sign.FAILED,
    "session.deleted": Sign.ENDED,
}
_MOST = 16
# The error of a turn that a person ended.
_ABORTED = "MessageAbortedError"


def read(body: Mapping[str, object]) -> Said | None:
    """Return what the plugin says; None for what is none of our business, or in no form that we know."""
    event = word(body, "type")
    sign = EVENTS.get(event)
    properties = body.get("properties")
    if sign is None or not isinstance(properties, dict):
        return None
    info = properties.get("info")
    info = info if isinstance(info, dict) else {}
    given = _given(properties)
    error = properties.get("error")
    kind = word(error, "name") if isinstance(error, dict) else word(properties, "reply")
    if kind == _ABORTED:
        sign, kind = Sign.NOTIFIED, IDLE
    return Said(
        sign,
        event,
        conversation=word(properties, "sessionID") or word(info, "id"),
        directory=word(info, "directory", most=4096) or word(body, "directory", most=4096),
        tool=word(properties, "tool", "permission", most=100),
        given=given,
        call=word(properties, "id", "requestID", "callID"),
        text=words(properties, "text") or _words_of(error),
        kind=kind,
        within=bool(word(info, "parentID") or word(body, "parentID")),
        asked_again=body.get("asked_again") is True,
    )


def write(said: Said, answered: Answered) -> dict[str, object] | None:
    """Return what the plugin is to do, None for nothing."""
    if said.sign is Sign.PERMISSION and answered.verdict:
        reply = "reject"
        if answered.verdict == "allow":
            reply = "always" if answered.always else "once"
        return {"reply": reply, "requestID": said.call, "message": answered.words}
    if said.sign is Sign.TOOL_BEFORE and answered.verdict == "deny":
        return {"deny": answered.words}
    told = answered.go_on or answered.context
    return {"prompt" if answered.go_on else "context": told} if told else None


def _given(properties: Mapping[str, object]) -> Mapping[str, object]:
    """Return what the tool is given: its arguments, or what the permission is for."""
    args = properties.get("args")
    if isinstance(args, dict):
        return args
    metadata = properties.get("metadata")
    given: dict[str, object] = dict(metadata) if isinstance(metadata, dict) else {}
    patterns = properties.get("patterns")
    if "command" not in given and isinstance(patterns, list):
        given["patterns"] = [one for one in patterns[:_MOST] if isinstance(one, str)]
    return given


def _words_of(error: object) -> str:
    if not isinstance(error, dict):
        return ""
    data = error.get("data")
    return words(data, "message") if isinstance(data, dict) else words(error, "message")
