"""The message bus as a folder: its readers read what we write, and we take in what it holds."""

import contextlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobwire.coordination import agents
from jobwire.coordination.agents import Beat, Joining
from jobwire.coordination.boards.boards import Boards
from jobwire.coordination.boards.phases import BoardTurn
from jobwire.coordination.boards.statements import NewBoard
from jobwire.coordination.bus.cli import BUS
from jobwire.coordination.bus.session_export import write_session
from jobwire.coordination.exporting import exported_folder
from jobwire.coordination.home_key import home_key
from jobwire.coordination.locks.changes import LockRequest
from jobwire.coordination.locks.file_locks import Locks
from jobwire.coordination.message import NewMessage
from jobwire.coordination.sending import send
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.waiting import wait_pattern
from jobwire.core.errors import ConflictError
from jobwire.testing import new_home
from jobwire.testing.clock import ManualClock

Bus = Callable[..., dict[str, Any]]
# Every type of the bus with the fields of its payload.
PAYLOADS: dict[str, dict[str, object]] = {
    "PROGRESS": {"task_id": "1.1", "progress_pct": 40, "current_subtask": "parser"},
    "TASK_COMPLETE": {
        "task_id": "1.1",
        "commit_sha": "ab12",
        "files_modified": ["a.py"],
        "unblocks": ["1.2"],
    },
    "TASK_FAILED": {"task_id": "1/3", "error": "no network", "stack_trace": "at line 1"},
    "FILE_LOCK": {"filepath": "src/a.py", "lock_type": "write", "expires_at": "2026-01-01T00:30:00Z"},
    "FILE_UNLOCK": {"filepath": "src/a.py"},
    "BLOCKED": {"task_id": "1.2", "waiting_for": "worker-2", "resource": "src/a.py"},
    "BOARD_ASSESS": {
        "director": "CA",
        "verdict": "APPROVE",
        "score": 8,
        "concerns": [],
        "recommendations": [],
    },
    "BOARD_DISCUSS": {
        "from": "CA",
        "to": "ALL",
        "type": "AGREE",
        "message": "so",
        "changes_my_verdict": False,
    },
    "BOARD_VOTE": {"director": "CA", "final_verdict": "APPROVE", "confidence": 0.9, "conditions": []},
    "BOARD_RESOLVE": {
        "verdict": "APPROVED",
        "vote_summary": {"CA": "APPROVE"},
        "conditions": [],
        "dissent": [],
    },
}


def read_messages(bus: Path, since: str | None = None, msg_type: str | None = None) -> list[dict[str, Any]]:
    """Read a queue as programs of the bus do: each line is JSON, times are compared as texts."""
    messages = []
    with (bus / "queue.jsonl").open() as queue:
        for line in queue:
            message = json.loads(line)
            if since and message["timestamp"] < since:
                continue
            if msg_type and message["type"] != msg_type:
                continue
            messages.append(message)
    return messages


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CoordinationStore:
    """Give a home with one of each type in it."""
    new_home(tmp_path / ".hermes")
    monkeypatch.chdir(tmp_path)
    for name in ("JOBWIRE_HOME", "JOBWIRE_DB", "JOBWIRE_AGENT", "JOBWIRE_JOB"):
        monkeypatch.delenv(name, raising=False)
    return CoordinationStore(str(tmp_path / ".hermes"))


@pytest.fixture
def bus(capfd: pytest.CaptureFixture[str]) -> Bus:
    """Give the command: words in, the object out."""

    def run(*words: str, code: int = 0) -> dict[str, Any]:
        found = BUS.main([words[0], "--json", "--format", "message-bus", *words[1:]])
        said = capfd.readouterr()
        assert found == code, said
        body: dict[str, Any] = json.loads(said.out.splitlines()[-1])
        return body

    return run


def test_every_type_is_sent_and_read_back(store: CoordinationStore, bus: Bus, tmp_path: Path) -> None:
    """Each type's payload fields come unchanged out of the queue, in order, and wake under their names."""
    for message_type, payload in PAYLOADS.items():
        send(
            store,
            NewMessage("worker-1.1-ab", type=message_type, payload=json.dumps(payload), id=message_type),
        )
    bus("export", "bus")
    found = read_messages(tmp_path / "bus")
    assert {one["type"]: one["payload"] for one in found} == PAYLOADS
    assert [one["type"] for one in found] == list(PAYLOADS)
    assert all(one["source"] == "worker-1.1-ab" and one["timestamp"].endswith("Z") for one in found)
    assert read_messages(tmp_path / "bus", since=found[3]["timestamp"], msg_type="BLOCKED")
    assert sorted(path.name for path in (tmp_path / "bus/events").iterdir()) == [
        "BOARD_RESOLVE.event",
        "BOARD_RESOLVE_all.event",
        "FILE_UNLOCK_all.event",
        "TASK_COMPLETE_1.1.event",
        "TASK_FAILED_1%2F3.event",
    ]


def test_what_another_program_wrote_is_exported_whatever_it_is(
    store: CoordinationStore, bus: Bus, tmp_path: Path
) -> None:
    """Texts of a foreign row that are no JSON stop no export, of either folder, and no wait for a name."""
    store.latest_event()
    with contextlib.closing(sqlite3.connect(store.path)) as other, other:
        other.execute(
            "INSERT INTO messages (id, ts_ms, from_agent, to_agent, type, payload, acceptance, summary)"
            " VALUES ('odd', 1000, 'a', 'b', 'PROGRESS', ?, 'oops', 'half')",
            ("[" * 100_000,),
        )
    assert wait_pattern(store, "PROGRESS_*", seconds=0, after=0).found is not None
    bus("export", "bus")
    (line,) = read_messages(tmp_path / "bus")
    assert (line["id"], line["payload"]) == ("odd", {"summary": "half", "body": ""})
    write_session(store, str(tmp_path / "session"), "default")
    assert "  - oops\n" in (tmp_path / "session/bus/inbox/b/odd.md").read_text()


def test_locks_workers_and_boards(store: CoordinationStore, bus: Bus, tmp_path: Path) -> None:
    """What is held, who works on what, and the newest board stand where programs of the bus look."""
    Locks(store, job_ended=lambda _: False).acquire(LockRequest("worker-1", ("src/a.py",)))
    with store.changing() as change:
        agents.join(change, "worker-1", Joining())
        agents.beat(change, "worker-1", Beat("working", "1.1", 0.4))
    boards = Boards(store, key=home_key(store.home))
    board_id = boards.open(
        NewBoard("lead", "PRE_LAUNCH", "launch it", ("CA", "CSO"), quick=True)
    ).board.board_id
    for name, verdict in (("CA", "APPROVE"), ("CSO", "CONCERNS")):
        boards.say(board_id, name, BoardTurn.ASSESS, {"verdict": verdict, "concerns": ["no rollback"]})
    bus("export", "bus")
    found = {
        path.relative_to(tmp_path / "bus").as_posix(): path.read_text()
        for path in (tmp_path / "bus").rglob("*")
        if path.is_file()
    }
    lock = json.loads(found["locks.json"])["src/a.py"]
    assert lock["worker_id"] == "worker-1"
    assert lock["acquired_at"] < lock["expires_at"]
    worker = json.loads(found["worker-status.json"])["worker-1"]
    assert (worker["status"], worker["task_id"], worker["progress_pct"]) == ("RUNNING", "1.1", 40)
    session = json.loads(found[f"board/session-{board_id}.json"])
    assert (session["status"], session["phases"]["assess"]) == (
        "COMPLETE",
        {"status": "COMPLETE", "complete": 2, "of": 2},
    )
    assert json.loads(found["board/assessments.json"])["CSO"]["concerns"] == ["no rollback"]
    assert found["board/resolution.md"].startswith("# APPROVED: PRE_LAUNCH")
    assert [
        one["payload"]["director"] for one in read_messages(tmp_path / "bus", msg_type="BOARD_ASSESS")
    ] == [
        "CA",
        "CSO",
    ]


def test_a_bus_is_taken_in_once(store: CoordinationStore, bus: Bus, tmp_path: Path) -> None:
    """Messages keep their times, what is torn or wrong is told with its place, and again adds nothing."""
    folder = tmp_path / "bus"
    folder.mkdir()
    good = {
        "id": "msg-1",
        "type": "TASK_COMPLETE",
        "source": "worker 1",
        "timestamp": "2026-01-01T12:00:00.500000Z",
        "payload": PAYLOADS["TASK_COMPLETE"],
    }
    lines = [json.dumps(good), '{"id": "msg-2"}', "no json", '{"id": "torn", "ty']
    (folder / "queue.jsonl").write_text("\n".join(lines))
    far = {
        "worker_id": "worker-2",
        "acquired_at": "2026-01-01T12:00:00Z",
        "expires_at": "2096-01-01T12:00:00Z",
    }
    (folder / "locks.json").write_text(json.dumps({"src/a.py": far, "../out": far, "b": 1}))
    (folder / "worker-status.json").write_text(
        json.dumps(
            {
                "worker-2": {
                    "task_id": "1.2",
                    "status": "RUNNING",
                    "progress_pct": 50,
                    "last_heartbeat": "2026-01-01T12:00:00Z",
                },
                "worker-3": {"status": "SLEEPING"},
            }
        )
    )
    found = bus("import", "bus")
    assert [found[name] for name in ("messages", "known", "workers", "locks", "left_out")] == [1, 0, 1, 1, 6]
    assert sorted(line.partition(": ")[0] for line in found["problems"]) == [
        "locks.json",
        "locks.json",
        "queue.jsonl:2",
        "queue.jsonl:3",
        "queue.jsonl:4",
        "worker-status.json",
    ]
    again = bus("import", "bus")
    assert [again[name] for name in ("messages", "known")] == [0, 1]
    bus("export", "out")
    (back,) = read_messages(tmp_path / "out", msg_type="TASK_COMPLETE")
    assert (back["timestamp"], back["payload"]) == (good["timestamp"], good["payload"])
    assert back["source"] == "worker_201"
    assert "src/a.py" in json.loads((tmp_path / "out/locks.json").read_text())


def test_what_is_no_bus(store: CoordinationStore, bus: Bus, tmp_path: Path) -> None:
    """A folder without a queue is said to be none, and a file in the way of a folder is in the way."""
    assert bus("import", "nothing", code=40)["error"]["code"] == "not_found"
    (tmp_path / "file").touch()
    assert bus("export", "file/bus", code=30)["error"]["code"] == "invalid_input"


FIVE = ("CA", "CPO", "CSO", "COO", "CXO")


def board_folder(folder: Path, name: str = "board-20260101120000", **session: object) -> Path:
    """Write a board as programs of the bus leave it: four voted for it, one against it."""
    board = folder / "board"
    board.mkdir(parents=True, exist_ok=True)
    (folder / "queue.jsonl").touch()
    about = {
        "session_id": name,
        "checkpoint": "PRE_LAUNCH",
        "status": "VOTING",
        "proposal": {"proposal": "launch it", "context": ""},
        "directors": list(FIVE),
        "started_at": "2026-01-01T12:00:00Z",
    }
    (board / f"session-{name}.json").write_text(json.dumps({**about, **session}))
    assessed = {"verdict": "CONCERNS", "score": 7, "concerns": ["no rollback"], "recommendations": []}
    (board / "assessments.json").write_text(json.dumps(dict.fromkeys(FIVE, assessed)))
    talk = {"from": "CSO", "to": "ALL", "type": "CHALLENGE", "message": "who restores it?"}
    lines = [
        json.dumps({**talk, "timestamp": "2026-01-01T12:10:00Z"}),
        json.dumps({**talk, "from": "X"}),
        '{"to',
    ]
    (board / "discussion.jsonl").write_text("\n".join(lines))
    votes = {
        member: {
            "final_verdict": "REJECT" if member == "CSO" else "APPROVE",
            "confidence": 0.9,
            "conditions": ["a rollback"] if member == "CA" else [],
            "timestamp": "2026-01-01T12:20:00Z",
        }
        for member in FIVE
    }
    (board / "votes.json").write_text(json.dumps(votes))
    return board


def test_a_board_is_taken_in_once_all_have_voted(store: CoordinationStore, bus: Bus, tmp_path: Path) -> None:
    """Its words keep their times, our tally seals what follows, nobody is asked, and again adds nothing."""
    board_folder(tmp_path / "bus")
    found = bus("import", "bus")
    assert (found["boards"], found["left_out"]) == (1, 2)
    assert [line.partition(": ")[0] for line in found["problems"]] == [
        "board/discussion.jsonl:3",
        "board/discussion.jsonl:2",
    ]
    boards = Boards(store, key=home_key(store.home))
    view = boards.view("board-20260101120000")
    assert view.resolution is not None
    assert (view.phase.value, view.resolution["verdict"]) == ("COMPLETE", "APPROVED")
    assert view.resolution["conditions"] == ["a rollback (CA)"]
    assert view.resolution["dissent"] == ["REJECT: no rollback (CSO)"]
    assert [one.turn for one in view.said] == [BoardTurn.ASSESS] * 5 + [BoardTurn.DISCUSS] + [
        BoardTurn.VOTE
    ] * 5
    assert boards.verify(str(view.board.resolution).encode()) == []
    assert (bus("import", "bus")["boards"], len(boards.views())) == (0, 1)


def test_our_own_board_comes_back(store: CoordinationStore, bus: Bus, tmp_path: Path) -> None:
    """What one home exports another takes in with the same verdict: who was silent is absent there, too."""
    clock = ManualClock()
    boards = Boards(CoordinationStore(store.home, clock=clock), key=home_key(store.home))
    opened = boards.open(NewBoard("lead", "PRE_LAUNCH", "launch it", FIVE, deadline_seconds=60))
    name = opened.board.board_id
    for turn, content in (
        (BoardTurn.ASSESS, {"verdict": "APPROVE"}),
        (BoardTurn.PASS, {}),
        (BoardTurn.VOTE, {"final_verdict": "APPROVE"}),
    ):
        for member in FIVE[:4]:
            boards.say(name, member, turn, content)
        clock.advance(61)
    decided = boards.view(name).resolution
    bus("export", "bus")
    new_home(tmp_path / "other/.hermes")
    other = CoordinationStore(str(tmp_path / "other/.hermes"))
    assert bus("import", "--home", other.home, "bus")["boards"] == 1
    taken = Boards(other, key=home_key(other.home)).view(name).resolution
    assert decided is not None
    assert taken is not None
    for key in ("verdict", "vote_summary", "abstentions", "members"):
        assert taken[key] == decided[key]
    assert taken["absent"] == {"ASSESSING": ["CXO"], "VOTING": ["CXO"]}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"session": {"directors": [*FIVE, "CFO"]}}, "goes on there"),
        ({"session": {"directors": []}}, "0 members"),
        ({"session": {"directors": [f"m{n}" for n in range(1000)]}}, "1000 members"),
        ({"session": {"proposal": "launch it"}}, "a proposal and directors"),
        ({"session": {"started_at": "soon"}}, "is no time"),
        ({"session": {"session_id": "another"}}, "another one"),
        ({"votes.json": {"CA": {"final_verdict": "APPROVE", "confidence": 7}}}, "confidence is 7"),
        ({"votes.json": {"stranger": {"final_verdict": "APPROVE"}}}, "'stranger' is not on the board"),
        ({"votes.json": {"CA": "APPROVE"}}, "no object"),
        ({"assessments.json": {"CA": {"verdict": "MAYBE"}}}, "verdict is 'MAYBE'"),
    ],
)
def test_a_board_that_is_not_taken_in(
    store: CoordinationStore, bus: Bus, tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    """One that goes on there, or holds what no member may say, is left out with its cause."""
    board = board_folder(tmp_path / "bus", **change.get("session", {}))
    for name in change.keys() - {"session"}:
        (board / name).write_text(json.dumps(change[name]))
    found = bus("import", "bus")
    assert found["boards"] == 0
    assert any(told in line for line in found["problems"]), found["problems"]
    assert Boards(store, key=home_key(store.home)).views() == []


def test_of_older_boards_only_the_session_is_left(store: CoordinationStore, bus: Bus, tmp_path: Path) -> None:
    """A bus keeps the newest board's words: they are not taken for those of another one."""
    board_folder(tmp_path / "bus", "board-20250101120000", started_at="2025-01-01T12:00:00Z")
    board_folder(tmp_path / "bus")
    found = bus("import", "bus")
    assert found["boards"] == 1
    assert any("board-20250101120000" in line and "gone" in line for line in found["problems"])
    (view,) = Boards(store, key=home_key(store.home)).views()
    assert view.board.board_id == "board-20260101120000"


@pytest.mark.parametrize("kind", ["message-bus", "session"])
def test_a_new_folder_is_there_whole_or_not_at_all(
    store: CoordinationStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """An export that ends before its end leaves nothing at the folder's place, and the next one is whole."""
    send(store, NewMessage("a", ("b",), summary="first", id="m1"))
    words = ["export", "--json", "--format", kind, str(tmp_path / "deep/bus")]

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        # As a kill does: nothing is tidied up.
        patched.setattr("os.rename", killed)
        patched.setattr("shutil.rmtree", lambda *_, **__: None)
        assert BUS.main(words) != 0
    (left,) = (tmp_path / "deep").iterdir()
    assert left.name.startswith(".jobwire-")
    assert BUS.main(words) == 0
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["bus"]
    assert any("m1" in path.read_text() for path in (tmp_path / "deep/bus").rglob("*") if path.is_file())


def test_a_folder_that_is_there_stays(store: CoordinationStore, bus: Bus, tmp_path: Path) -> None:
    """Who looks into it sees the new files; what others have there is left, and so is one made meanwhile."""
    folder = tmp_path / "bus"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    before = folder.stat().st_ino
    bus("export", "bus")
    assert folder.stat().st_ino == before
    assert (folder / "queue.jsonl").exists()
    assert (folder / "notes.txt").read_text() == "mine"
    made = tmp_path / "made"

    def too_late() -> None:
        with exported_folder(store.home, str(made)) as target:
            Path(target, "new").touch()
            made.mkdir()
            (made / "theirs").touch()

    with pytest.raises(ConflictError) as caught:
        too_late()
    assert caught.value.facts["code"] == "not_expected"
    assert [path.name for path in made.iterdir()] == ["theirs"]
    assert not list(tmp_path.glob(".jobwire-*"))
