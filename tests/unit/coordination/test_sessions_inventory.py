"""Sessions in the store: states that may follow, one job at a time, an archive for people."""

from functools import partial
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobwire.coordination import reading
from jobwire.coordination.locks.changes import LockRequest
from jobwire.coordination.locks.file_locks import Locks
from jobwire.coordination.message import NewMessage
from jobwire.coordination.reading import ways_in
from jobwire.coordination.sending import send
from jobwire.coordination.sessions.archive import archive_text
from jobwire.coordination.sessions.inventory import Inventory
from jobwire.coordination.sessions.names import check_session_name, folder_name
from jobwire.coordination.sessions.states import FINAL, EndedBy, SessionState, may_become
from jobwire.coordination.sessions.stored import HANDED, OPENING, SessionRow
from jobwire.coordination.store import CoordinationStore
from jobwire.core.errors import ConflictError, InvalidInputError, NotFoundError, TransitionError
from jobwire.storage import wake

NEW = SessionRow(
    "work", "running", "claude", "paste", "work", "", '["claude"]', "/src", "/tmp/tmux-0/default"
)


def _in_state(state: SessionState, row: SessionRow) -> SessionRow:
    return row._replace(state=state)


@pytest.fixture
def inventory(store: CoordinationStore) -> Inventory:
    """Give the inventory of an empty store."""
    return Inventory(store)


def test_a_session_is_found_as_it_was_written(inventory: Inventory) -> None:
    """A new session stands in the list, in its state's, and under its name; a stranger is 40."""
    inventory.begin(NEW)
    (row,) = inventory.rows()
    assert (row.name, row.words, row.directory) == ("work", ["claude"], "/src")
    assert inventory.rows(SessionState.RUNNING) == [row] == [inventory.get("work")]
    assert inventory.rows(SessionState.STOPPED) == []
    assert inventory.counts() == {"running": 1}
    assert inventory.find("play") is None
    with pytest.raises(NotFoundError):
        inventory.get("play\udc80")


def test_a_name_is_taken_while_its_session_is_alive(inventory: Inventory) -> None:
    """Running or archived, a name is not given again; terminated, it is."""
    inventory.begin(NEW)
    with pytest.raises(ConflictError, match="already"):
        inventory.begin(NEW)
    inventory.end("work", SessionState.ARCHIVED, by=EndedBy.SOFT, reason="left")
    with pytest.raises(ConflictError, match="archived"):
        inventory.begin(NEW)
    inventory.end("work", SessionState.TERMINATED, by=EndedBy.HARD, reason="killed")
    assert inventory.begin(NEW).state == "running"


def test_one_job_at_a_time(inventory: Inventory) -> None:
    """A second job is refused with the first one's id; freed by its own job's end only."""
    inventory.begin(NEW)
    assert inventory.take_job("work", "0000abcd", "1/x").handing == OPENING
    with pytest.raises(ConflictError, match="0000abcd") as refused:
        inventory.take_job("work", "deadbeef", "2/x")
    assert refused.value.facts["code"] == "locked"
    assert inventory.free("work", "deadbeef").job_id == "0000abcd"
    assert inventory.free("work", "0000abcd").job_id == ""


@pytest.mark.parametrize("state", [SessionState.STOPPED, SessionState.TERMINATED])
def test_a_lock_ends_with_its_session(
    inventory: Inventory, state: SessionState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the session end its agent's locks and waits, and it is told; next in the queue is who waited."""
    locks = Locks(inventory.store, job_ended=lambda _: False)
    inventory.begin(NEW)
    locks.acquire(LockRequest("work", ("src",)))
    locks.acquire(LockRequest("other", ("docs",)))
    assert not isinstance(locks.begin(LockRequest("work", ("docs",))), list)
    asked = LockRequest("next", ("src/a.py",))
    wait = locks.begin(asked)
    assert not isinstance(wait, list)
    woken: set[str] = set()
    monkeypatch.setattr(wake, "touch", lambda _, names: woken.update(names))
    inventory.end("work", state, by=EndedBy.STOP, reason="done")
    assert {"resource:src", f"resource:lock-wait-{wait.wait_id}"} <= woken
    assert locks.look_again(asked, wait)
    left = locks.state()
    assert ([lock.agent_id for lock in left.locks], left.waits) == (["other", "next"], [])
    told = [one.subject for one in reading.fetch(inventory.store, "work", limit=10)]
    assert told == [f"your lock on src ended: session work is {state}"]


def test_locks_outlive_a_session_whose_agent_lives(inventory: Inventory) -> None:
    """Archived is left alive; and an agent with another session keeps its locks when one of them ends."""
    locks = Locks(inventory.store, job_ended=lambda _: False)
    inventory.begin(NEW)
    inventory.begin(NEW._replace(name="second"))
    locks.acquire(LockRequest("work", ("src",)))
    inventory.end("work", SessionState.ARCHIVED, by=EndedBy.SOFT, reason="left")
    inventory.end("second", SessionState.STOPPED, by=EndedBy.STOP, reason="done")
    assert [lock.agent_id for lock in locks.state().locks] == ["work"]
    inventory.end("work", SessionState.TERMINATED, by=EndedBy.HARD, reason="killed")
    assert locks.state().locks == []


def test_ending_forgets_the_pane_and_keeps_the_conversation(inventory: Inventory) -> None:
    """What has ended has no pane and no job; left alive it keeps both."""
    inventory.begin(NEW._replace(pane="%1", pid=7, life="b.1"))
    inventory.note_conversation("work", "c-1")
    inventory.change("work", lambda row: row._replace(job_id="0000abcd", handing=HANDED))
    soft = inventory.end("work", SessionState.ARCHIVED, by=EndedBy.SOFT, reason="left")
    assert (soft.pane, soft.job_id) == ("%1", "0000abcd")
    ended = inventory.end("work", SessionState.STOPPED, by=EndedBy.STOP, reason="x" * 999)
    assert (ended.pane, ended.pid, ended.job_id, ended.conversation) == ("", 0, "", "c-1")
    assert len(ended.reason) == 200
    with pytest.raises(TransitionError):
        inventory.end("work", SessionState.ARCHIVED, by=EndedBy.SOFT, reason="again")


@pytest.mark.parametrize("wrong", ["", "-x", "a b", "x" * 129, "a\nb"])
def test_an_id_of_a_conversation_is_no_option_and_no_text(inventory: Inventory, wrong: str) -> None:
    """What would become another word of the resume command is refused."""
    inventory.begin(NEW)
    with pytest.raises(InvalidInputError):
        inventory.note_conversation("work", wrong)


def test_only_the_ended_are_forgotten(inventory: Inventory) -> None:
    """A running session stays in the inventory."""
    inventory.begin(NEW)
    with pytest.raises(ConflictError):
        inventory.forget("work")
    inventory.end("work", SessionState.STOPPED, by=EndedBy.STOP, reason="")
    inventory.forget("work")
    assert inventory.rows() == []


def test_a_delivery_is_told_once(inventory: Inventory) -> None:
    """The second nudge of one delivery is refused, another's is not."""
    assert inventory.nudge_once("builder", 5)
    assert not inventory.nudge_once("builder", 5)
    assert inventory.nudge_once("builder", 6)


def test_a_conversation_shows_that_its_message_was_pasted(inventory: Inventory) -> None:
    """A message of which an agent was told in its pane names that way."""
    sent = send(inventory.store, NewMessage("lead", ("builder",), summary="look"))
    assert inventory.nudge_once("builder", sent.event_id)
    (way,) = ways_in(inventory.store, sent.thread_id)[sent.message_id]
    assert way == {"agent_id": "builder", "way": "paste", "state": "told", "event": ""}


def test_final_states_are_archived_with_a_backup(inventory: Inventory, tmp_path: Path) -> None:
    """The archive names what has ended, newest first; the file before it is the backup."""
    inventory.begin(NEW)
    assert not (tmp_path / "agent-sessions.yaml").exists()
    inventory.end("work", SessionState.STOPPED, by=EndedBy.STOP, reason='said "enough": # \x85\u2028 now')
    (entry,) = yaml.safe_load((tmp_path / "agent-sessions.yaml").read_text())["sessions"]
    assert entry["reason"] == 'said "enough": # \x85\u2028 now'
    inventory.begin(NEW._replace(name="other"))
    inventory.end("other", SessionState.TERMINATED, by=EndedBy.PANE, reason="gone")
    told = yaml.safe_load((tmp_path / "agent-sessions.yaml").read_text())["sessions"]
    assert {one["name"] for one in told} == {"work", "other"}
    before = yaml.safe_load((tmp_path / "agent-sessions.yaml.bak").read_text())["sessions"]
    assert [one["name"] for one in before] == ["work"]
    assert (tmp_path / "agent-sessions.yaml").stat().st_mode & 0o777 == 0o600


@given(reason=st.text(st.characters(codec="utf-8"), max_size=50))
def test_any_text_is_the_same_in_the_archive(reason: str) -> None:
    """What YAML could take for its own is read back as it was."""
    row = NEW._replace(state="stopped", reason=reason)
    (entry,) = yaml.safe_load(archive_text([row]))["sessions"]
    assert entry.get("reason", "") == reason


def test_nothing_has_ended() -> None:
    """An empty archive is a document as well."""
    assert yaml.safe_load(archive_text([NEW])) == {"sessions": []}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.sampled_from(SessionState), max_size=8))
def test_a_session_takes_only_allowed_steps(inventory: Inventory, steps: list[SessionState]) -> None:
    """Whatever is asked for, a session's state changes as the table says, or not at all."""
    for row in inventory.rows():
        if row.state == "running":
            inventory.end("work", SessionState.STOPPED, by=EndedBy.STOP, reason="")
        inventory.forget("work")
    inventory.begin(NEW)
    at = SessionState.RUNNING
    for after in steps:
        if after is at:
            continue
        if may_become(at, after):
            at = inventory.change("work", partial(_in_state, after)).standing
        else:
            with pytest.raises(TransitionError):
                inventory.change("work", partial(_in_state, after))
        assert inventory.get("work").standing is at


def test_every_final_state_can_be_left_again() -> None:
    """Resume brings back whatever has ended."""
    assert all(may_become(state, SessionState.RUNNING) for state in FINAL)


@pytest.mark.parametrize(
    "name", ["a#{pid}", "#(id)", "a:b", "a.b", "-t", "%1", "a\nb", "\ud800", "", "x" * 65]
)
def test_names_that_tmux_would_read_as_something_else(name: str) -> None:
    """Formats, targets, options and controls are refused before tmux sees them."""
    with pytest.raises(InvalidInputError, match="tmux session"):
        check_session_name(name)


@given(name=st.text(min_size=1, max_size=64))
def test_a_folder_is_one_plain_name(name: str) -> None:
    """Whatever a session is called, its folder is one path component of plain characters."""
    name = name.encode(errors="replace").decode()
    assert set(folder_name(name)) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
    assert folder_name(name) not in {".", ".."}
    assert len(folder_name(name)) <= 73
