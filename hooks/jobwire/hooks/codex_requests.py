"""What Codex's app-server asks and says of turns, as signs, and answers in its form. Pure.

Its protocol is experimental (`codex app-server generate-json-schema`, 0.169.0): what comes in a form that is
not known here is left to the agent's pane.
"""

from __future__ import annotations

import shlex
from pathlib import PurePath
from typing import TYPE_CHECKING

from jobwire.hooks.signs import IDLE, Question, Said, Sign, ends, objects, word, words
from jobwire.hooks.turn_end import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobwire.hooks.signs import Answered

COMMAND, CHANGE = "item/commandExecution/requestApproval", "item/fileChange/requestApproval"
QUESTIONS = "item/tool/requestUserInput"
FOR_SESSION = "acceptForSession"
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
# With a status of HTTP beside them; without one the service was not reached.
_HTTP_ERRORS = frozenset(
    {
        "httpConnectionFailed",
        "responseStreamConnectionFailed",
        "responseStreamDisconnected",
        "responseTooManyFailedAttempts",
    }
)
_ERRORS = {
    "serverOverloaded": "overloaded",
    "rateLimitExceeded": "rate_limit",
    "internalServerError": "server_error",
    "other": UNKNOWN,
}
_TOO_MANY, _SERVER_ERROR = 429, 500


def asked_in(
    method: str, asked: str, params: Mapping[str, object], changes: Sequence[object] = ()
) -> Said | None:
    """Return what a request of the app-server asks; None where only the pane can answer it.

    `asked`: the request's id. `changes`: those of the files that it is about, as its item told them.
    """
    questions: tuple[Question, ...] = ()
    if method == COMMAND:
        tool, given = "Bash", {"command": _command(params)}
        always = params.get("availableDecisions")
        lasting = isinstance(always, list) and FOR_SESSION in always
    elif method == CHANGE:
        tool, given = "apply_patch", {"command": _changes(changes)}
        lasting = True
    elif method == QUESTIONS:
        tool, given, lasting = "request_user_input", {"command": "questions"}, False
        questions = _questions(params)
        if not questions:
            return None
    else:
        return None
    if not given["command"]:
        return None
    reason = word(params, "reason", most=400)
    return Said(
        Sign.PERMISSION,
        method,
        conversation=word(params, "threadId"),
        tool=tool,
        given={**given, **({"description": reason} if reason else {})},
        call=f"{word(params, 'itemId')}#{asked}",
        questions=questions,
        suggestions=({"decision": FOR_SESSION},) if lasting else (),
    )


def result_for(said: Said, params: Mapping[str, object], answered: Answered) -> dict[str, object] | None:
    """Return the response to the request that `said` was read from; None for none."""
    if said.questions:
        if not answered.replies:
            return None
        asked = params.get("questions")
        named = {word(one, "question", most=2000): word(one, "id") for one in objects(asked)}
        return {"answers": {named[text]: {"answers": [reply]} for text, reply in answered.replies.items()}}
    if answered.verdict == "allow":
        return {"decision": FOR_SESSION if answered.always and said.suggestions else "accept"}
    return {"decision": "decline"} if answered.verdict == "deny" else None


def ended_in(params: Mapping[str, object]) -> Said | None:
    """Return what the end of a turn says, of which the Stop hook has asked for a verdict already."""
    turn = params.get("turn")
    if not isinstance(turn, dict):
        return None
    conversation, status = word(params, "threadId"), turn.get("status")
    if status == "completed":
        said = [words(one, "text") for one in objects(turn.get("items")) if one.get("type") == "agentMessage"]
        text = said[-1] if said else ""
        return Said(Sign.TURN_END, "turn/completed", conversation, text=text, asked_again=True)
    if status == "interrupted":
        return Said(Sign.NOTIFIED, "turn/completed", conversation, kind=IDLE)
    error = turn.get("error")
    if status != "failed" or not isinstance(error, dict):
        return None
    kind = error_kind(error.get("codexErrorInfo"))
    return Said(Sign.FAILED, "turn/completed", conversation, text=words(error, "message"), kind=kind)


def error_kind(info: object) -> str:
    """Return the kind of an error as `turn_end` knows it; what it does not know, a person decides."""
    if isinstance(info, str):
        return _ERRORS.get(info, info[:64])
    name, detail = next(iter(info.items()), ("", None)) if isinstance(info, dict) else ("", None)
    if name not in _HTTP_ERRORS:
        return str(name)[:64] or UNKNOWN
    status = detail.get("httpStatusCode") if isinstance(detail, dict) else None
    if not isinstance(status, int) or status >= _SERVER_ERROR:
        return "server_error"
    return "rate_limit" if status == _TOO_MANY else f"http_{status}"


def changes_in(params: Mapping[str, object]) -> tuple[str, Sequence[object]]:
    """Return the id and the changes of an item that changes files; "" where it is another."""
    item = params.get("item")
    if not isinstance(item, dict) or item.get("type") != "fileChange":
        return "", ()
    changes = item.get("changes")
    return word(item, "id"), changes if isinstance(changes, list) else ()


def _command(params: Mapping[str, object]) -> str:
    """Return what is to be run, out of the shell that Codex puts around it; or the host to be reached."""
    network = params.get("networkApprovalContext")
    if isinstance(network, dict):
        return f"network access to {word(network, 'host')} ({word(network, 'protocol')})"
    command = params.get("command")
    if not isinstance(command, str) or params.get("kind", "command") != "command":
        return ""  # input of a command that runs: what it means is seen at the pane
    try:
        parts = shlex.split(command)
    except ValueError:
        return command
    shell, option, script = parts if len(parts) == 3 else ("", "", "")  # noqa: PLR2004 - a shell, -c, a script
    return script if PurePath(shell).name in _SHELLS and option in {"-c", "-lc"} else command


def _changes(changes: Sequence[object]) -> str:
    return ends(
        "\n".join(f"{word(one, 'path', most=4096)}\n{one.get('diff', '')}" for one in objects(changes))
    )


def _questions(params: Mapping[str, object]) -> tuple[Question, ...]:
    """Return the questions; none where one of the answers is a secret, which nobody may keep."""
    asked = objects(params.get("questions"))
    if any(one.get("isSecret") is True for one in asked):
        return ()
    return tuple(
        Question(
            word(one, "question", most=2000),
            tuple(word(option, "label") for option in objects(one.get("options"))),
        )
        for one in asked
    )
