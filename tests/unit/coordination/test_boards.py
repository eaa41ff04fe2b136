"""Boards in the store: members are asked where they look, speak in turn, and decide for good."""

import io
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from jobwire.coordination import reading
from jobwire.coordination.boards.boards import Boards
from jobwire.coordination.boards.cli import BOARD
from jobwire.coordination.boards.phases import BoardPhase, BoardTurn
from jobwire.coordination.boards.statements import DEFAULT_MEMBERS, NewBoard
from jobwire.coordination.store import CoordinationStore
from jobwire.core.errors import ConflictError, InvalidInputError, JobwireError
from jobwire.testing import new_home
from jobwire.testing.clock import ManualClock

NEW = NewBoard("lead", "PRE_LAUNCH", "Ship it on Monday.", deadline_seconds=600.0)
FOR: dict[str, object] = {"final_verdict": "APPROVE", "confidence": 0.9}


@pytest.fixture
def boards(store: CoordinationStore) -> Boards:
    """Give the boards of an empty store."""
    return Boards(store, key="key")


def speak(boards: Boards, board_id: str, turn: BoardTurn, content: dict[str, object], *silent: str) -> None:
    """Let all default members but the silent ones have that turn."""
    for member in DEFAULT_MEMBERS:
        if member not in silent:
            boards.say(board_id, member, turn, content)


def test_a_board_with_one_that_never_answers(
    boards: Boards, store: CoordinationStore, clock: ManualClock
) -> None:
    """Four of five speak; each phase ends at its deadline, the fifth abstains, and everybody is told."""
    opened = boards.open(NEW)
    board_id = opened.board.board_id
    speak(boards, board_id, BoardTurn.ASSESS, {"verdict": "CONCERNS", "concerns": ["no rollback"]}, "CXO")
    assert boards.view(board_id).progress.missing == {"CXO"}
    clock.advance(600)
    assert boards.view(board_id).phase is BoardPhase.DISCUSSING
    talk: dict[str, object] = {"to": "CA", "type": "QUESTION", "message": "and if it fails?"}
    boards.say(board_id, "CSO", BoardTurn.DISCUSS, talk)
    clock.advance(600)
    speak(boards, board_id, BoardTurn.VOTE, FOR, "CXO", "CSO")
    boards.say(
        board_id, "CSO", BoardTurn.VOTE, {"final_verdict": "REJECT", "conditions": ["a rollback first"]}
    )
    clock.advance(600)
    view = boards.view(board_id)
    assert view.phase is BoardPhase.COMPLETE
    assert view.resolution is not None
    assert view.resolution["verdict"] == "APPROVED_WITH_REVIEW"
    assert view.resolution["abstentions"] == ["CXO"]
    assert view.resolution["dissent"] == ["REJECT: a rollback first; no rollback (CSO)"]
    types = [one.type for one in reading.messages_of(store, opened.board.thread_id)]
    assert types[:2] == ["BOARD_OPEN", "BOARD_ASSESS"]
    assert types[-1] == "BOARD_RESOLVE"
    asked = [one for one in reading.messages_of(store, opened.board.thread_id) if one.from_agent == "jobwire"]
    assert {one.type for one in asked} == {"BOARD_ASSESS", "BOARD_DISCUSS", "BOARD_VOTE", "BOARD_RESOLVE"}
    assert all("CXO" in one.to for one in asked)


@pytest.mark.parametrize(
    ("member", "turn", "content", "code"),
    [
        ("stranger", BoardTurn.ASSESS, {"verdict": "APPROVE"}, "not_a_member"),
        ("CA", BoardTurn.VOTE, FOR, "board_phase"),
        ("CA", BoardTurn.PASS, {}, "board_phase"),
        ("CA", BoardTurn.ASSESS, {"verdict": "PERHAPS"}, None),
        ("CA", BoardTurn.ASSESS, {"verdict": "APPROVE", "score": 11}, None),
        ("CA", BoardTurn.VOTE, {"final_verdict": "APPROVE", "confidence": 7}, None),
        ("CA", BoardTurn.VOTE, {"final_verdict": "APPROVE", "conditions": ["x"] * 1000}, None),
    ],
)
def test_who_may_say_what_when(
    boards: Boards, member: str, turn: BoardTurn, content: dict[str, object], code: str | None
) -> None:
    """Strangers, turns of another phase and votes that mean nothing are refused, and nothing is kept."""
    board_id = boards.open(NEW).board.board_id
    with pytest.raises(JobwireError) as caught:
        boards.say(board_id, member, turn, content)
    assert caught.value.facts.get("code") == code
    assert boards.view(board_id).said == []


def test_a_revision_counts_and_boards_do_not_mix(boards: Boards) -> None:
    """Of two assessments the last one counts, on its own board only."""
    new = NEW._replace(quick=True, members=("a", "b"))
    first, second = (boards.open(new).board.board_id for _ in range(2))
    boards.say(first, "a", BoardTurn.ASSESS, {"verdict": "REJECT"})
    boards.say(first, "a", BoardTurn.ASSESS, {"verdict": "APPROVE"})
    view = boards.say(first, "b", BoardTurn.ASSESS, {"verdict": "APPROVE"})
    assert view.resolution is not None
    assert (view.resolution["verdict"], view.resolution["consensus"]) == ("APPROVED", True)
    assert boards.view(second).phase is BoardPhase.ASSESSING
    assert [one.board.board_id for one in boards.views(only_open=True)] == [second]


def test_nothing_can_be_changed_afterwards(
    boards: Boards, store: CoordinationStore, foreign: sqlite3.Connection
) -> None:
    """A resolution verifies, also as a command prints it; what was changed or lost since is named."""
    board_id = boards.open(NEW._replace(quick=True)).board.board_id
    speak(boards, board_id, BoardTurn.ASSESS, {"verdict": "APPROVE"})
    sealed = (boards.view(board_id).board.resolution or "").encode()
    assert boards.verify(sealed) == []
    assert boards.verify(sealed.replace(b'"APPROVED"', b'"REJECTED"'))
    assert Boards(store, key="other").verify(sealed)
    shown = {"sealed": sealed.decode(), "resolution": dict(boards.view(board_id).resolution or {})}
    assert boards.verify(json.dumps(shown).encode()) == []
    shown["resolution"] = {**dict(boards.view(board_id).resolution or {}), "verdict": "REJECTED"}
    assert boards.verify(json.dumps(shown).encode()) == ["what it shows is not what was signed"]
    with pytest.raises(sqlite3.DatabaseError, match="what was said stays"):
        foreign.execute("UPDATE board_statements SET content = '{}'")
    foreign.execute("DELETE FROM board_statements WHERE member = 'CA'")
    assert len(boards.verify(sealed)) == 1


@pytest.mark.parametrize(
    "new",
    [
        NEW._replace(members=("CA",)),
        NEW._replace(members=("CA", "CA")),
        NEW._replace(members=tuple(f"m{n}" for n in range(101))),
        NEW._replace(proposal=" "),
        NEW._replace(checkpoint="a\nb"),
        NEW._replace(deadline_seconds=-1.0),
        NEW._replace(quorum=6),
    ],
)
def test_what_is_no_board(boards: Boards, new: NewBoard) -> None:
    """Too few and too many members, no proposal, times and numbers that mean nothing open no board."""
    with pytest.raises(InvalidInputError):
        boards.open(new)
    assert boards.views() == []


def test_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Open, assess, wait, show, resolve, verify from a command line: one object each, with its exit code."""
    new_home(tmp_path / ".hermes")
    monkeypatch.chdir(tmp_path)
    for name in ("JOBWIRE_HOME", "JOBWIRE_DB", "JOBWIRE_AGENT", "JOBWIRE_JOB"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "plan.md").write_text("Ship \x1b[31mit.\n")

    def board(*words: str, code: int = 0) -> dict[str, Any]:
        assert BOARD.main([*words, "--json"]) == code, words
        body: dict[str, Any] = json.loads(capfd.readouterr().out)
        return body

    opened = board(
        *("open", "--agent", "lead", "--checkpoint", "QUICK_REVIEW", "--proposal", "plan.md"),
        *("--quick", "--member", "a", "--member", "b"),
    )
    board_id = str(opened["board_id"])
    assert board("resolve", board_id, code=20)["error"]["code"] == "board_phase"
    waited = board("wait", board_id, "--timeout-seconds", "0", code=10)
    assert (waited["woke"], waited["board_id"], waited["event_id"]) == (False, board_id, opened["event_id"])
    board("assess", board_id, "--agent", "a", "--verdict", "APPROVE")
    assert board("show", board_id)["board"]["missing"] == ["b"]
    board("assess", board_id, "--agent", "b", "--verdict", "CONCERNS", "--concern", "late")
    waited = board("wait", board_id)
    assert (waited["woke"], waited["event_id"] > opened["event_id"]) == (True, True)
    found = board("resolve", board_id)
    assert found["resolution"]["verdict"] == "APPROVED"
    (tmp_path / "resolution.json").write_text(found["sealed"])
    assert board("verify", "resolution.json")["genuine"] is True
    (tmp_path / "resolution.json").write_text("{}")
    board("verify", "resolution.json", code=20)
    assert [one["verdict"] for one in board("list")["boards"]] == ["APPROVED"]
    assert len(board("messages", board_id)["messages"]) == 2
    assert BOARD.main(["show", board_id]) == 0
    assert "\x1b" not in capfd.readouterr().out
    assert board("show", "nothing", code=40)["error"]["code"] == "not_found"
    assert (tmp_path / ".hermes" / "keys" / "home.key").stat().st_mode & 0o777 == 0o600


def test_a_resolution_that_was_changed_in_the_store_is_not_shown(
    boards: Boards, foreign: sqlite3.Connection
) -> None:
    """Who reads a board never gets a resolution that this home did not seal."""
    board_id = boards.open(NEW._replace(quick=True)).board.board_id
    speak(boards, board_id, BoardTurn.ASSESS, {"verdict": "APPROVE"})
    foreign.execute("UPDATE boards SET resolution = replace(resolution, 'APPROVED', 'REJECTED')")
    with pytest.raises(ConflictError):
        boards.view(board_id)


def test_a_proposal_comes_from_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """`--proposal -` reads it from where a pipe leads."""
    monkeypatch.setenv("JOBWIRE_HOME", str(new_home(tmp_path / ".hermes")))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Ship it.\n")))
    words = ["open", "--agent", "lead", "--checkpoint", "QUICK_REVIEW", "--proposal", "-", "--json"]
    assert BOARD.main([*words, "--member", "a", "--member", "b"]) == 0
    assert json.loads(capfd.readouterr().out)["board"]["phase"] == "ASSESSING"
