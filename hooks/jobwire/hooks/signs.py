"""What an agent's hook says, whichever agent it is, and what it may be answered. Pure.

Each agent's module reads its hooks' input into a `Said` and writes an `Answered` in its own form. What an
agent says in a form that nobody knows is no sign, and never an error.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.digest import sha256
from jobwire.core.terminal_text import disarmed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

# Of what a tool is given, nobody reads more: the beginning and the end, where something may be hidden.
_PART = 32 * 1024
_MAX_TOOL = 100
_MAX_ID = 128
_MAX_WORDS = 16 * 1024
# Claude cuts what a hook adds at 10,000 characters.
MAX_CONTEXT = 9000
# What names the same call in the request and after it: agents add to these, or leave them out.
_BESIDE = frozenset(
    {"description", "answers", "annotations", "timeout", "justification", "run_in_background"}
)


class Sign(StrEnum):
    """What happened at the agent."""

    BEGUN = "begun"
    PROMPTED = "prompted"
    TOOL_BEFORE = "tool_before"
    PERMISSION = "permission"
    TOOL_AFTER = "tool_after"
    NOTIFIED = "notified"
    TURN_END = "turn_end"
    FAILED = "failed"
    SETTLED = "settled"
    ENDED = "ended"


# The `kind` of a notification that it waits at its prompt.
IDLE = "idle_prompt"


class Question(NamedTuple):
    """One question that an agent asks a person, with its choices."""

    text: str
    choices: tuple[str, ...] = ()


class Said(NamedTuple):
    """What a hook was given, bounded.

    `conversation` is the agent's own id of it. `tool`, `given`, `call`: the tool's name, its input, the id of
    the call. `text`: a prompt, last words, a reason. `background`: tasks that still run. `asked_again`: the
    turn goes on because a hook asked for it. `within`: in a subagent, which is not the job.
    """

    sign: Sign
    event: str
    conversation: str = ""
    directory: str = ""
    transcript: str = ""
    tool: str = ""
    given: Mapping[str, object] = {}  # never changed in place
    call: str = ""
    text: str = ""
    kind: str = ""
    questions: tuple[Question, ...] = ()
    background: int = 0
    asked_again: bool = False
    failed: bool = False
    within: bool = False
    model: str = ""
    suggestions: tuple[Mapping[str, object], ...] = ()

    @property
    def digest(self) -> str:
        """Return what names the call of a tool before, while and after it is asked about."""
        return digest_of(self.tool, self.given)

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the files that the tool is about to change."""
        return edited(self.tool, self.given)


class Answered(NamedTuple):
    """What a hook is to answer: nothing is the agent's own way.

    `verdict` is "allow" or "deny", `words` go to the agent with a denial, `context` reaches its model,
    `go_on` keeps the turn going with these words. `replies` answer its questions by their text. `always`:
    also from now on.
    """

    verdict: str = ""
    words: str = ""
    context: str = ""
    go_on: str = ""
    replies: Mapping[str, str] = {}  # never changed in place
    always: bool = False

    def __bool__(self) -> bool:
        return self != NOTHING


NOTHING = Answered()


def said_of(
    body: Mapping[str, object], events: Mapping[str, Sign], *, text: Sequence[str], kind: Sequence[str]
) -> Said | None:
    """Return what a hook says in the form of Claude Code and Codex; None where it is none of `events`.

    `text` and `kind` name the fields that these are taken from, the first that is there.
    """
    event = word(body, "hook_event_name")
    sign = events.get(event)
    if sign is None:
        return None
    tool, given = tool_in(body)
    return Said(
        sign,
        event,
        conversation=word(body, "session_id"),
        directory=word(body, "cwd", most=4096),
        transcript=word(body, "transcript_path", most=4096),
        tool=tool,
        given=given,
        call=word(body, "tool_use_id"),
        text=words(body, *text),
        kind=word(body, *kind),
        asked_again=body.get("stop_hook_active") is True,
        within=bool(word(body, "agent_id")),
        model=word(body, "model", most=64),
    )


def output_of(
    said: Said,
    answered: Answered,
    decision: Mapping[str, object] | None,
    *,
    tells: Collection[str],
    context: str,
) -> dict[str, object] | None:
    """Return a hook's answer in the form of Claude Code and Codex, None for none.

    `decision` is about a permission; `context` reaches the model where the event is one that `tells` it.
    """
    own: dict[str, object] = {}
    if said.sign is Sign.PERMISSION and decision is not None:
        own["decision"] = decision
    elif said.sign is Sign.TOOL_BEFORE and answered.verdict == "deny":
        own |= {"permissionDecision": "deny", "permissionDecisionReason": answered.words}
    if context and said.event in tells:
        own["additionalContext"] = context[:MAX_CONTEXT]
    return {"hookSpecificOutput": {"hookEventName": said.event, **own}} if own else None


def denial_of(answered: Answered) -> dict[str, object]:
    """Return the decision that denies a permission, in their form."""
    return {"behavior": "deny", "message": answered.words or "denied by a person"}


def digest_of(tool: str, given: Mapping[str, object]) -> str:
    """Return a digest of a tool and of what it is given; of a command alone, where it runs one."""
    command = given.get("command")
    basis: object = command
    if not isinstance(command, str):
        basis = {name: value for name, value in given.items() if name not in _BESIDE}
    whole = json.dumps([tool, basis], sort_keys=True, default=str, ensure_ascii=False)
    return sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:32]


_EDITS = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit", "edit", "write", "patch", "multiedit"})
_PATCHES = frozenset({"apply_patch", "patch"})
_PATCH_MARKS = ("*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: ")
_PATH_NAMES = ("file_path", "filePath", "notebook_path", "path")
_MOST_PATHS = 256


def edited(tool: str, given: Mapping[str, object]) -> tuple[str, ...]:
    """Return the files that a call of `tool` changes; of a command nobody knows."""
    if tool in _PATCHES:
        text = next((value for value in given.values() if isinstance(value, str) and "***" in value), "")
        lines = [line.rstrip() for line in text.splitlines()]
        found = [line.removeprefix(mark) for line in lines for mark in _PATCH_MARKS if line.startswith(mark)]
        return tuple(dict.fromkeys(found))[:_MOST_PATHS]
    if tool not in _EDITS:
        return ()
    named = [given.get(name) for name in _PATH_NAMES]
    return tuple(name for name in named if isinstance(name, str) and name)[:1]


def shown(given: Mapping[str, object]) -> str:
    """Return what a tool is to do, for a person who decides: bounded, not masked yet."""
    command = given.get("command")
    if isinstance(command, list):
        command = " ".join(map(str, command))
    if isinstance(command, str):
        return ends(command)
    path = next((given[name] for name in _PATH_NAMES if isinstance(given.get(name), str)), None)
    old, new = _text(given, "old_string", "oldString"), _text(given, "new_string", "newString")
    if path is not None and (old or new):
        return ends("\n".join([str(path), *_marked("-", old), *_marked("+", new)]))
    content = _text(given, "content")
    if path is not None and content:
        return ends("\n".join([str(path), *_marked("+", content)]))
    only = next(iter(given.values()), "") if len(given) == 1 else None
    return ends(only if isinstance(only, str) else json.dumps(given, default=str, ensure_ascii=False))


def ends(text: str) -> str:
    """Return a long text as its beginning and its end."""
    if len(text) <= 2 * _PART:
        return text
    return f"{text[:_PART]}\n… {len(text) - 2 * _PART} characters …\n{text[-_PART:]}"


def line_of(tool: str, given: Mapping[str, object]) -> str:
    """Return a call of a tool in a line."""
    said = given.get("description")
    if not isinstance(said, str) or not said.strip():
        said = shown(given)
    first = next((line for line in said[:_PART].splitlines() if line.strip()), "")
    return disarmed(f"{tool}: {' '.join(first.split())}"[:240] if first else tool)


def last_line(text: str) -> str:
    """Return the last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def word(body: Mapping[str, object], *names: str, most: int = _MAX_ID) -> str:
    """Return the first of these fields that is a text, bounded; "" for none."""
    return _text(body, *names)[:most]


def words(body: Mapping[str, object], *names: str) -> str:
    """Return the first of these fields that is a text, as `word`, of some pages."""
    return word(body, *names, most=_MAX_WORDS)


def objects(value: object) -> list[dict[str, object]]:
    """Return the objects in a list; none where it is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list | tuple) else []


def tool_in(body: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
    """Return the tool and its input."""
    given = body.get("tool_input")
    if isinstance(given, str):
        given = {"command": given}
    return disarmed(word(body, "tool_name", most=_MAX_TOOL)), given if isinstance(given, dict) else {}


def _text(body: Mapping[str, object], *names: str) -> str:
    return next((value for name in names if isinstance(value := body.get(name), str)), "")


def _marked(mark: str, text: str) -> list[str]:
    return [f"{mark} {line}" for line in ends(text).splitlines()]
