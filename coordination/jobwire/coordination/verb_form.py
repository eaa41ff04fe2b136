"""What a verb of an agent is: the arguments that it takes, each of a kind, and what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from jobwire.coordination.message import Artifact, NewMessage
from jobwire.core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobwire.coordination.store import CoordinationStore

    # What a verb does in a store, for an agent, with its arguments: what `--json` prints.
    VerbBody = Callable[[CoordinationStore, str, dict[str, Any]], dict[str, object]]

MOST = 1000
TEXT, WHOLE, NUMBER, FLAG, TEXTS, OBJECTS = (
    "a text",
    "a whole number",
    "a number",
    "true or false",
    "a list of texts",
    "a list of objects",
)


def _is_text(value: object) -> bool:
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False  # half of a surrogate pair: no file and no wire can carry it


_FITS: Mapping[str, Callable[[object], bool]] = {
    TEXT: _is_text,
    WHOLE: lambda value: type(value) is int and abs(value) < 2**62,
    NUMBER: lambda value: type(value) in (int, float),
    FLAG: lambda value: isinstance(value, bool),
    TEXTS: lambda value: isinstance(value, list) and all(map(_is_text, value)),
    OBJECTS: lambda value: isinstance(value, list) and all(isinstance(one, dict) for one in value),
}


class AgentVerb(NamedTuple):
    """What one verb takes, as names and kinds, and what it does.

    `changes`: it must be done once, however often it is asked for; `keeps`: it is worth sending later;
    `crosses`: it changes a job's record as well, which no transaction of the store holds. Done again under
    the same `id`, or by the same holder, it changes nothing more. `public`: whoever has the home may ask for
    it, and then the store's own agent asks, to whom all of it is open. `commands`: it is for whoever has the
    home: who holds a ticket works for that home and does not command it. `elsewhere` is called with the
    arguments of whoever has no home: it refuses what is not for such an agent, and narrows the rest.
    """

    takes: Mapping[str, str]
    does: VerbBody
    needs: tuple[str, ...] = ()
    changes: bool = False
    keeps: bool = False
    crosses: bool = False
    public: bool = False
    commands: bool = False
    elsewhere: Callable[[CoordinationStore, str, dict[str, Any]], None] | None = None

    def check(self, name: str, args: Mapping[str, object]) -> None:
        """Refuse arguments that it does not take; raises InvalidInputError."""
        for field, value in args.items():
            kind = self.takes.get(field)
            if kind is None:
                raise InvalidInputError(
                    f"{name} takes no {field!r:.80}", hint=f"it takes {', '.join(self.takes)}"
                )
            if not _FITS[kind](value):
                raise InvalidInputError(f"{field} of {name} is not {kind}")
        for field in self.needs:
            if field not in args:
                raise InvalidInputError(f"{name} needs {field}")


def limit_of(args: dict[str, Any], *, none: int = 20) -> int:
    """Return how many are asked for, `none` where nobody says; raises InvalidInputError."""
    limit: int = args.get("limit", none)
    if "limit" in args and limit < 1:
        raise InvalidInputError(f"limit is {limit}", hint=f"from 1 to {MOST}")
    return limit


def artifact_fields(value: dict[str, Any]) -> tuple[str, str]:
    """Return path and kind of an artifact; raises InvalidInputError."""
    path, kind = value.get("path"), value.get("kind", "file")
    if not isinstance(path, str) or not isinstance(kind, str) or value.keys() - {"path", "kind"}:
        raise InvalidInputError("an artifact is an object with path and kind")
    return path, kind


WORDS = {"summary": TEXT, "body": TEXT, "payload": TEXT, "artifacts": OBJECTS, "id": TEXT}


def words_of(agent: str, kind: str, args: dict[str, Any]) -> NewMessage:
    """Return what the arguments say, as a message of the agent."""
    return NewMessage(
        agent,
        kind=kind,
        type=args.get("type", ""),
        summary=args.get("summary", ""),
        body=args.get("body", ""),
        payload=args.get("payload"),
        id=args.get("id", ""),
        thread_id=args.get("thread_id"),
        artifacts=tuple(Artifact(*artifact_fields(one)) for one in args.get("artifacts", ())),
    )
