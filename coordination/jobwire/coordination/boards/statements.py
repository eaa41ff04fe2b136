"""What a board is opened with and what its members say: bounds, defaults, words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.boards.phases import MAX_ROUNDS, BoardTurn
from jobwire.coordination.boards.tally import Assessment, Vote
from jobwire.core.bounds import MAX_INSTRUCTIONS, check_count, check_line, check_seconds, check_text
from jobwire.core.errors import InvalidInputError
from jobwire.core.topics import check_agent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jobwire.coordination.boards.resolution import Statement

DEFAULT_MEMBERS = ("CA", "CPO", "CSO", "COO", "CXO")
MAX_MEMBERS = 100
# In bytes, of characters that may have four; a resolution names all that was said.
MAX_PROPOSAL = MAX_INSTRUCTIONS * 4
MAX_RESOLUTION = 16 * 1024 * 1024
PHASE_SECONDS = 1800.0
MAX_WORD = 64
MAX_STATEMENT = 16 * 1024
MAX_POINTS = 32
TALK = ("CHALLENGE", "AGREE", "QUESTION", "CLARIFY")
EVERYBODY_ON_IT = "ALL"
_LEAST = 2


class NewBoard(NamedTuple):
    """A board to open; `deadline_seconds` is for each phase."""

    opened_by: str
    checkpoint: str
    proposal: str
    members: tuple[str, ...] = DEFAULT_MEMBERS
    quick: bool = False
    rounds: int = MAX_ROUNDS
    quorum: int = 0
    deadline_seconds: float = PHASE_SECONDS
    run_id: str = "default"


class PastBoard(NamedTuple):
    """A board that was held elsewhere, with all that was said, in its order."""

    board_id: str
    opened_ms: int
    new: NewBoard
    said: tuple[Statement, ...]


def words(turn: BoardTurn, content: Mapping[str, object]) -> str:
    """Return a turn in a few words."""
    if turn is BoardTurn.PASS:
        return "passes"
    return str(content.get("verdict") or content.get("final_verdict") or content.get("message"))


def check_board(new: NewBoard) -> None:
    """Refuse what is no board; raises InvalidInputError."""
    check_line("checkpoint", new.checkpoint, MAX_WORD)
    check_text("proposal", new.proposal, MAX_INSTRUCTIONS)
    check_seconds("deadline", new.deadline_seconds)
    check_count("number of rounds", new.rounds, MAX_ROUNDS)
    if not new.proposal.strip():
        raise InvalidInputError("the proposal is empty", hint="--proposal FILE, - for stdin")
    if not _LEAST <= len(set(new.members)) == len(new.members) <= MAX_MEMBERS:
        raise InvalidInputError(
            f"{len(new.members)} members", hint=f"{_LEAST} to {MAX_MEMBERS} different ones, each once"
        )
    for name in new.members:
        check_agent(name)
    if not 0 <= new.quorum <= len(new.members):
        raise InvalidInputError(f"a quorum of {new.quorum}", hint="at most the number of members")


def checked_statement(new: NewBoard, said: Statement) -> Statement:
    """Return what a member said elsewhere with its defaults; raises InvalidInputError."""
    if said.member not in new.members:
        raise InvalidInputError(f"{said.member!r:.80} is not on the board")
    try:
        return said._replace(content=checked(said.turn, said.content))
    except InvalidInputError as error:
        raise InvalidInputError(f"{said.member!r:.80}: {error.message}", hint=error.hint) from error


def checked(turn: BoardTurn, content: Mapping[str, object]) -> dict[str, object]:
    """Return the content with its defaults; raises InvalidInputError for what a member cannot say."""
    if turn is BoardTurn.ASSESS:
        return {
            "verdict": _one_of("verdict", content.get("verdict"), [one.value for one in Assessment]),
            "score": _number("score", content.get("score", 5), 1, 10),
            "concerns": _points("concerns", content),
            "recommendations": _points("recommendations", content),
        }
    if turn is BoardTurn.VOTE:
        return {
            "final_verdict": _one_of("verdict", content.get("final_verdict"), [one.value for one in Vote]),
            "confidence": _number("confidence", content.get("confidence", 0.5), 0, 1),
            "conditions": _points("conditions", content),
        }
    if turn is BoardTurn.PASS:
        return {}
    message = str(content.get("message", ""))
    check_text("message", message, MAX_STATEMENT)
    if not message.strip():
        raise InvalidInputError("the message is empty", hint="`jobwire board pass` says nothing")
    return {
        "to": str(content.get("to", EVERYBODY_ON_IT)),
        "type": _one_of("type", content.get("type", "CLARIFY"), TALK),
        "message": message,
        "changes_my_verdict": bool(content.get("changes_my_verdict")),
    }


def _one_of(name: str, value: object, known: Iterable[str]) -> str:
    words = list(known)
    if value not in words:
        raise InvalidInputError(f"{name} is {value!r}", hint=f"one of {', '.join(words)}")
    return str(value)


def _number(name: str, value: object, least: float, most: float) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidInputError(f"{name} is {value!r}", hint=f"a number from {least:g} to {most:g}")
    return value


def _points(name: str, content: Mapping[str, object]) -> list[str]:
    found = content.get(name, [])
    if not isinstance(found, list | tuple) or len(found) > MAX_POINTS:
        raise InvalidInputError(f"{name} is no list of at most {MAX_POINTS} texts")
    for text in found:
        check_text(name, str(text), MAX_STATEMENT)
    return [str(text) for text in found]
