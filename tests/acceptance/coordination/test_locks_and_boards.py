"""What file locks and boards promise, each promise with what a bus of plain files did wrong in its place."""

import contextlib
import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobwire.cli.main import main
from jobwire.coordination import agents, reading
from jobwire.coordination.agents import Beat, Joining
from jobwire.coordination.boards.boards import Boards
from jobwire.coordination.boards.phases import BoardPhase, BoardTurn
from jobwire.coordination.boards.statements import DEFAULT_MEMBERS, NewBoard
from jobwire.coordination.boards.tally import Decision, Vote, decide
from jobwire.coordination.home_key import home_key
from jobwire.coordination.locks.changes import LockRequest
from jobwire.coordination.locks.file_locks import Locks
from jobwire.coordination.message import NewMessage
from jobwire.coordination.sending import send
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.waiting import wait_pattern
from jobwire.core.errors import ConflictError, InvalidInputError
from jobwire.testing import new_home, wait_for
from jobwire.testing.clock import ManualClock

Say = Callable[..., dict[str, Any]]
RUN = "default"
NEW = NewBoard("lead", "PRE_LAUNCH", "launch it", deadline_seconds=60.0)
A, R, N = Vote.APPROVE, Vote.REJECT, Vote.ABSTAIN


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give a fresh home; the working directory is what its agents work on."""
    monkeypatch.chdir(tmp_path)
    for name in ("JOBWIRE_AGENT", "JOBWIRE_JOB", "JOBWIRE_DB", "JOBWIRE_HOME", "JOBWIRE_TICKET"):
        monkeypatch.delenv(name, raising=False)
    return str(new_home(tmp_path / ".hermes"))


@pytest.fixture
def say(home: str, capfd: pytest.CaptureFixture[str]) -> Say:
    """Give the command line: words in, the object out; `code` is the exit code that is expected."""

    def run(*words: str, code: int = 0) -> dict[str, Any]:
        capfd.readouterr()
        found = main([*words[:2], "--json", "--home", home, *words[2:]])
        said = capfd.readouterr()
        assert found == code, said
        body: dict[str, Any] = json.loads(said.out)
        return body

    return run


@pytest.fixture
def clock() -> ManualClock:
    """Give a clock that the test moves."""
    return ManualClock()


@pytest.fixture
def boards(home: str, clock: ManualClock) -> Boards:
    """Give the boards by that clock."""
    return Boards(CoordinationStore(home, clock=clock), key=home_key(home))


def locks_of(home: str, clock: ManualClock | None = None) -> Locks:
    """Return the locks by a connection of their own."""
    return Locks(CoordinationStore(home, clock=clock), job_ended=lambda _: False)


def background(home: str, *words: str) -> "subprocess.Popen[str]":
    """Start a command of another agent."""
    command = [sys.executable, "-m", "jobwire.cli.main", *words, "--home", home, "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_row_24_two_agents_one_path(home: str, say: Say) -> None:
    """The second gets 20 at once; waiting, it goes on with its own path's release, not with another's."""
    say("lock", "acquire", "src/a.py", "src/b.py", "--agent", "a")
    assert say("lock", "acquire", "src/a.py", "--agent", "b", code=20)["error"]["code"] == "locked"
    waiter = background(home, "lock", "acquire", "src/a.py", "--agent", "b", "--wait", "300")
    wait_for(lambda: say("lock", "list")["waiting"], deadline_seconds=60, what="the waiter")
    say("lock", "release", "src/b.py", "--agent", "a")
    assert [one["agent"] for one in say("lock", "list")["waiting"]] == ["b"]
    say("lock", "release", "src/a.py", "--agent", "a")
    out, _ = waiter.communicate(timeout=60)
    assert (waiter.returncode, json.loads(out)["locks"][0]["agent"]) == (0, "b")


def test_row_24_a_lock_that_ran_out(home: str, clock: ManualClock) -> None:
    """After 1,800 s it is taken by another, and the first holder's release and renewal give 20."""
    locks = locks_of(home, clock)
    (first,) = locks.acquire(LockRequest("a", ("x",)))
    clock.advance(1799)
    with pytest.raises(ConflictError):
        locks.acquire(LockRequest("b", ("x",)))
    clock.advance(1)
    (second,) = locks.acquire(LockRequest("b", ("x",)))
    assert second.token > first.token
    for change in (locks.release, locks.renew):
        with pytest.raises(ConflictError) as caught:
            change("a", ["x"], run_id=RUN, token=first.token)
        assert (caught.value.facts["code"], int(caught.value.exit_code)) == ("lease_lost", 20)


def test_row_26_a_holds_x_wants_y_and_b_the_reverse(home: str, say: Say) -> None:
    """The second wait is refused with the circle; after one has done there is none left."""
    say("lock", "acquire", "x", "--agent", "a")
    say("lock", "acquire", "y", "--agent", "b")
    waiter = background(home, "lock", "acquire", "y", "--agent", "a", "--wait", "300")
    wait_for(lambda: say("lock", "list")["waiting"], deadline_seconds=60, what="the waiter")
    error = say("lock", "acquire", "x", "--agent", "b", "--wait", "300", code=20)["error"]
    assert (error["code"], error["cycle"]) == ("deadlock", ["b", "a"])
    say("lock", "release", "--all", "--agent", "b")
    waiter.communicate(timeout=60)
    assert say("lock", "deadlocks")["deadlocks"] == []
    assert say("lock", "list")["waiting"] == []


def test_row_26_a_task_that_is_awaited_is_an_edge(home: str, say: Say) -> None:
    """Who is blocked by a task of another, and holds what that one wants, is in a circle until it is done."""
    say("tasks", "add", "--task", "T1", "--title", "first", "--owner", "b", "--agent", "lead")
    say(
        "tasks",
        "add",
        "--task",
        "T2",
        "--title",
        "second",
        "--owner",
        "a",
        "--depends-on",
        "T1",
        "--agent",
        "lead",
    )
    say("tasks", "claim", "T1", "--agent", "b")
    say("lock", "acquire", "x", "--agent", "a")
    store = CoordinationStore(home)
    with store.changing() as change:
        agents.join(change, "a", Joining())
        agents.beat(change, "a", Beat("blocked"))
    error = say("lock", "acquire", "x", "--agent", "b", "--wait", "300", code=20)["error"]
    assert (error["code"], error["cycle"]) == ("deadlock", ["b", "a"])
    with store.changing() as change:
        agents.beat(change, "a", Beat("working"))
    assert say("lock", "acquire", "x", "--agent", "b", "--wait", "0.1", code=10)["error"]["code"] == "timeout"


@pytest.mark.parametrize(("approve", "reject"), [(a, r) for a in range(6) for r in range(6 - a)])
def test_row_27_all_tallies_of_five(approve: int, reject: int) -> None:
    """Five directors: four approve, three with review, three reject, and else a person decides."""
    expected = (
        Decision.APPROVED
        if approve >= 4
        else Decision.APPROVED_WITH_REVIEW
        if approve == 3
        else Decision.REJECTED
        if reject >= 3
        else Decision.ESCALATE
    )
    votes = [A] * approve + [R] * reject + [N] * (5 - approve - reject)
    assert decide(votes, members=5) is expected


def test_row_27_a_missing_director(boards: Boards, clock: ManualClock) -> None:
    """It is absent at each deadline and abstains; the resolution verifies, one with another vote does not."""
    board = boards.open(NEW).board.board_id
    present = DEFAULT_MEMBERS[:4]
    everybody(boards, board, present, BoardTurn.ASSESS, {"verdict": "APPROVE"})
    assert boards.view(board).phase is BoardPhase.ASSESSING
    clock.advance(61)
    everybody(boards, board, present, BoardTurn.DISCUSS, {"message": "good"})
    clock.advance(61)
    everybody(boards, board, present, BoardTurn.VOTE, {"final_verdict": "APPROVE"})
    clock.advance(61)
    view = boards.view(board)
    assert view.resolution is not None
    assert (view.resolution["verdict"], view.resolution["abstentions"]) == ("APPROVED", ["CXO"])
    sealed = str(view.board.resolution).encode()
    assert boards.verify(sealed) == []
    assert boards.verify(sealed.replace(b'"CA":"APPROVE"', b'"CA":"REJECT"')) != []


def test_row_27_three_to_three_of_six(boards: Boards) -> None:
    """An even board that is split decides nothing: a person does."""
    members = tuple(f"m{number}" for number in range(6))
    board = boards.open(NEW._replace(members=members, rounds=1)).board.board_id
    everybody(boards, board, members, BoardTurn.ASSESS, {"verdict": "CONCERNS"})
    everybody(boards, board, members, BoardTurn.PASS, {})
    everybody(boards, board, members[:3], BoardTurn.VOTE, {"final_verdict": "APPROVE"})
    everybody(boards, board, members[3:], BoardTurn.VOTE, {"final_verdict": "REJECT"})
    assert (boards.view(board).resolution or {})["verdict"] == "ESCALATE"


def everybody(
    boards: Boards, board: str, members: tuple[str, ...], turn: BoardTurn, content: dict[str, object]
) -> None:
    """Let members have that turn."""
    for member in members:
        boards.say(board, member, turn, content)


def test_defect_the_second_contender_crashes(home: str, say: Say) -> None:
    """It is told who holds the file until when, and crashes on no time zone."""
    say("lock", "acquire", "a.py", "--agent", "worker-1.1-ab")
    error = say("lock", "acquire", "a.py", "--agent", "worker-2.1-cd", code=20)["error"]
    assert (error["holder"], error["until"][-1]) == ("worker-1.1-ab", "Z")


def test_defect_phases_that_cannot_be_left(boards: Boards) -> None:
    """Every phase is reached and left: rounds count, and the state of the board says where it is."""
    board = boards.open(NEW).board.board_id
    seen = [boards.view(board).phase]
    everybody(boards, board, DEFAULT_MEMBERS, BoardTurn.ASSESS, {"verdict": "APPROVE"})
    for number in (1, 2, 3):
        assert (boards.view(board).phase, boards.view(board).progress.round) == (
            BoardPhase.DISCUSSING,
            number,
        )
        everybody(boards, board, DEFAULT_MEMBERS, BoardTurn.PASS, {})
    seen.append(boards.view(board).phase)
    everybody(boards, board, DEFAULT_MEMBERS, BoardTurn.VOTE, {"final_verdict": "APPROVE"})
    seen.append(boards.view(board).phase)
    assert seen == [BoardPhase.ASSESSING, BoardPhase.VOTING, BoardPhase.COMPLETE]


def test_defect_a_release_that_wakes_nobody_or_everybody(home: str) -> None:
    """Who waits for a file is woken by that file; who waits for another sleeps on."""
    locks = locks_of(home)
    locks.acquire(LockRequest("a", ("src/x", "src/y")))
    got: list[str] = []

    def wait(path: str) -> None:
        with contextlib.suppress(ConflictError):
            own = locks_of(home)
            if not own.wait_until_free("b", [path], run_id=RUN, seconds=60):
                got.append(path)

    threads = [threading.Thread(target=wait, args=(path,)) for path in ("src/x", "src/y")]
    for thread in threads:
        thread.start()
    locks.release("a", ["src/y"], run_id=RUN)
    wait_for(lambda: got == ["src/y"], deadline_seconds=60, what="the waiter of src/y")
    locks.release("a", ["src/x"], run_id=RUN)
    for thread in threads:
        thread.join(60)
    assert got == ["src/y", "src/x"]


def test_defect_edges_that_never_go(home: str, say: Say) -> None:
    """Who waited and gave up blocks nobody: its edge has gone with its wait."""
    say("lock", "acquire", "x", "--agent", "a")
    say("lock", "acquire", "y", "--agent", "b")
    assert say("lock", "acquire", "y", "--agent", "a", "--wait", "0.1", code=10)["error"]["code"] == "timeout"
    assert say("lock", "acquire", "x", "--agent", "b", "--wait", "0.1", code=10)["error"]["code"] == "timeout"
    assert say("lock", "deadlocks")["deadlocks"] == []


@pytest.mark.parametrize(
    ("approve", "reject", "members", "expected"),
    [
        (3, 3, 6, Decision.ESCALATE),
        (4, 4, 8, Decision.ESCALATE),
        (3, 4, 7, Decision.REJECTED),
        (2, 0, 2, Decision.APPROVED),
        (2, 2, 5, Decision.ESCALATE),
    ],
)
def test_defect_a_tally_for_five_alone(approve: int, reject: int, members: int, expected: Decision) -> None:
    """Thresholds are fractions of the board; who abstains is not against it."""
    assert decide([A] * approve + [R] * reject, members=members) is expected


def test_defect_dissent_and_resolution_that_nobody_wrote(boards: Boards) -> None:
    """Who was against it stands in the resolution with the reason, also of a quick review that rejects."""
    board = boards.open(NEW._replace(quick=True)).board.board_id
    everybody(boards, board, DEFAULT_MEMBERS[:1], BoardTurn.ASSESS, {"verdict": "APPROVE"})
    everybody(
        boards,
        board,
        DEFAULT_MEMBERS[1:],
        BoardTurn.ASSESS,
        {"verdict": "REJECT", "concerns": ["no way back"]},
    )
    view = boards.view(board)
    assert view.phase is BoardPhase.COMPLETE
    resolution = view.resolution or {}
    assert (resolution["verdict"], resolution["consensus"]) == ("REJECTED", False)
    assert resolution["dissent"] == ["APPROVE: no reason given (CA)"]


def test_defect_boards_that_mix(boards: Boards) -> None:
    """Two boards opened in the same second keep apart; strangers and turns of another phase are refused."""
    one, two = boards.open(NEW).board.board_id, boards.open(NEW).board.board_id
    assert one != two
    boards.say(one, "CA", BoardTurn.ASSESS, {"verdict": "REJECT"})
    assert "CA" in boards.view(two).progress.missing
    with pytest.raises(InvalidInputError) as stranger:
        boards.say(two, "somebody", BoardTurn.ASSESS, {"verdict": "APPROVE"})
    assert stranger.value.facts["code"] == "not_a_member"
    with pytest.raises(ConflictError) as early:
        boards.say(two, "CA", BoardTurn.VOTE, {"final_verdict": "APPROVE"})
    assert early.value.facts["code"] == "board_phase"


def test_defect_a_board_that_hangs_for_ever(boards: Boards, clock: ManualClock) -> None:
    """Nobody says anything at all: whoever looks after the last deadline finds a resolution."""
    board = boards.open(NEW).board.board_id
    clock.advance(10_000)
    resolution = boards.view(board).resolution or {}
    assert (resolution["verdict"], resolution["abstentions"]) == ("ESCALATE", sorted(DEFAULT_MEMBERS))


def test_defect_a_loser_that_goes_on_writing(home: str, clock: ManualClock) -> None:
    """Whoever lost a lock that ran out has a message about it, and its token is void."""
    store = CoordinationStore(home, clock=clock)
    locks = locks_of(home, clock)
    (lost,) = locks.acquire(LockRequest("a", ("x",)))
    clock.advance(1801)
    locks.acquire(LockRequest("b", ("x",)))
    (told,) = reading.fetch(store, "a", limit=10)
    assert told.subject == "your lock on x ended: it ran out"
    with pytest.raises(ConflictError):
        locks.renew("a", ["x"], run_id=RUN, token=lost.token)


def test_defect_a_failure_that_wakes_nobody(home: str, say: Say) -> None:
    """Who waits for a task's failure by its name is woken, as by its completion."""
    woken: list[str] = []

    def wait() -> None:
        found = wait_pattern(CoordinationStore(home), "TASK_FAILED_T1", seconds=60, after=0).found
        woken.append(str(found.event["event_type"]) if found and found.event else "")

    waiter = threading.Thread(target=wait)
    waiter.start()
    say("tasks", "add", "--agent", "lead", "--owner", "b", "--title", "fix it")
    say("tasks", "claim", "--agent", "b", "T1")
    say("tasks", "fail", "--agent", "b", "T1", "--summary", "broken", "--permanent")
    waiter.join(60)
    assert woken == ["task_failed"]


def test_defect_an_old_event_that_ends_a_new_wait(home: str, clock: ManualClock) -> None:
    """A wait goes on from now or from its cursor; an id with a slash is a name as any other."""
    store, name = CoordinationStore(home, clock=clock), "TASK_COMPLETE_a/b"
    done = NewMessage("worker", type="TASK_COMPLETE", payload='{"task_id": "a/b"}')
    send(store, done)
    assert wait_pattern(store, name, seconds=0).found is None
    first = wait_pattern(store, name, seconds=0, after=0)
    assert first.found is not None
    assert wait_pattern(store, name, seconds=0, after=first.next_event_id).found is None
    send(store, done)
    assert wait_pattern(store, name, seconds=0, after=first.next_event_id).found is not None


def test_defect_times_compared_as_texts(home: str, clock: ManualClock) -> None:
    """What came half a second after a whole one comes after it: a cursor is a number, not a time."""
    store, numbers = CoordinationStore(home, clock=clock), [0]
    for summary in ("at the full second", "half a second later"):
        send(store, NewMessage("worker", type="PROGRESS", summary=summary))
        numbers.append(store.latest_event())
        clock.advance(0.5)
    for before, number in itertools.pairwise(numbers):
        assert wait_pattern(store, "PROGRESS_*", seconds=0, after=before).next_event_id == number


def test_defect_a_heartbeat_as_rare_as_death(home: str, clock: ManualClock) -> None:
    """Thresholds are multiples of what an agent declares: at five minutes it is not dead after five."""
    store = CoordinationStore(home, clock=clock)
    with store.changing() as change:
        agents.join(change, "slow", Joining(interval_seconds=300.0))
        agents.join(change, "quick", Joining())
    found = []
    for seconds in (300, 600, 8100):
        clock.advance(seconds)
        found.append([str(agents.find(store, name).liveness(clock.now())) for name in ("slow", "quick")])
    assert found == [["fresh", "DEAD"], ["WARN", "DEAD"], ["DEAD", "DEAD"]]


def test_ten_thousand_locks_at_once(home: str) -> None:
    """They are taken, beside them one more is taken and refused as ever, and given back in one go."""
    locks = locks_of(home)
    for start in range(0, 10_000, 1000):
        locks.acquire(LockRequest("crowd", tuple(f"d{n % 97}/f{n}.py" for n in range(start, start + 1000))))
    locks.acquire(LockRequest("a", ("other.py",)))
    with pytest.raises(ConflictError) as caught:
        locks.acquire(LockRequest("a", ("d5",)))
    assert caught.value.facts["holder"] == "crowd"
    assert len(locks.release("crowd", run_id=RUN)) == 10_000
    assert locks.acquire(LockRequest("a", (".",)))
