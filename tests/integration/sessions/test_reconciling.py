"""Tmux, inventory and jobs on a real server: orphans found and put right, strangers left alone."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobwire.coordination.message import NewMessage
from jobwire.coordination.sending import send
from jobwire.coordination.sessions.states import SessionState
from jobwire.coordination.sessions.stored import HANDED, OPENING, SessionRow
from jobwire.core.clock import SystemClock
from jobwire.core.lease import LeaseGrant
from jobwire.core.signature import new_token
from jobwire.jobs.fold import claim
from jobwire.jobs.record import JobRecord
from jobwire.registry.spec import JobSpec, new_record
from jobwire.registry.store import RecordStore
from jobwire.runner.tmux import Tmux
from jobwire.sessions import duty
from jobwire.sessions.duty import SessionKeeper
from jobwire.sessions.job_of_session import owner_of
from jobwire.sessions.reconciling import Carried, Reconciler
from jobwire.sessions.sending import DEFERRED
from jobwire.storage.process_life import life_of
from jobwire.testing import wait_for
from jobwire.testing.session_house import SessionHouse


def busy(house: SessionHouse, job_id: str = "0000abcd") -> RecordStore:
    """Give the session a running job whose instructions are in its pane."""
    store = RecordStore(house.home)
    now = store.clock.now()
    record = new_record(JobSpec(title="a job", agent_session="work"), job_id, new_token(), now)
    store.create(claim(record, LeaseGrant(owner_of("work")), now))
    house.inventory.change("work", lambda row: row._replace(job_id=job_id, handing=HANDED))
    return store


def said(carried: list[Carried]) -> list[str]:
    """Return what was found, each done."""
    assert all(one.done for one in carried), carried
    return [one.finding.text for one in carried]


def test_a_closed_pane_ends_its_job(house: SessionHouse) -> None:
    """A person closes the pane: the job ends in error with that reason, the session is terminated, once."""
    house.open()
    store = busy(house)
    house.open("other")
    house.tmux("kill-pane", "-t", house.inventory.get("work").pane)
    wait_for(lambda: Reconciler(house.home).look(), what="the pane to be gone")
    assert said(Reconciler(house.home).run()) == [
        "its pane is gone: job 0000abcd ends in error",
        "its pane is gone: terminated",
    ]
    assert store.get("0000abcd").detail == "session work: its pane is gone"
    assert house.inventory.get("work").state == "terminated"
    assert Reconciler(house.home).run() == []
    assert [row.name for row in house.inventory.rows(SessionState.RUNNING)] == ["other"]


def test_a_killed_server_ends_everything(house: SessionHouse) -> None:
    """The tmux server is killed hard: each session is found gone with it."""
    house.open()
    house.open("other")
    pid = int(house.tmux("display-message", "-p", "#{pid}"))
    os.kill(pid, 9)
    wait_for(lambda: life_of(house.inventory.get("other").pid) == "", what="the agents to end")
    assert (
        said(Reconciler(house.home).run())
        == ["its pane is gone, and its tmux server with it: terminated"] * 2
    )
    assert {row.ended_by for row in house.inventory.rows()} == {"server"}


def test_a_job_that_ended_frees_its_session(house: SessionHouse) -> None:
    """Cancelled from elsewhere: the agent lives on, the session takes the next job."""
    house.open()
    store = busy(house)
    from jobwire.runner.job_end import cancel_job  # noqa: PLC0415 - beside its one use

    assert cancel_job(RecordStore(house.home), "0000abcd", "enough")
    assert said(Reconciler(house.home).run()) == ["job 0000abcd is over: free"]
    row = house.inventory.get("work")
    assert (row.job_id, life_of(row.pid)) == ("", row.life)
    assert store.get("0000abcd").status == "cancelled"


def test_strangers_are_left_alone(house: SessionHouse) -> None:
    """Panes, windows and sessions that a person made stay, whatever is reconciled or killed beside them."""
    house.open()
    house.tmux("new-session", "-d", "-s", "mine", "cat")
    house.tmux("split-window", "-t", "work", "cat")
    strangers = house.tmux("list-panes", "-a", "-F", "#{pane_current_command} #{pane_id}")
    house.tmux("kill-pane", "-t", house.inventory.get("work").pane)
    wait_for(lambda: Reconciler(house.home).run(), what="the finding")
    left = house.tmux("list-panes", "-a", "-F", "#{pane_current_command} #{pane_id}")
    assert sorted(left.splitlines()) == sorted(
        line for line in strangers.splitlines() if line.startswith("cat")
    )


def test_an_opener_that_was_killed(house: SessionHouse) -> None:
    """Killed between pane and row: the pane is closed, the session terminated, the name free again."""
    script = (
        "import os, sys; from jobwire.sessions import opening; from jobwire.sessions.known_agents import *\n"
        "opening.Opener._begun = lambda *_: os.kill(os.getpid(), 9)\n"
        "agent = KnownAgent('echo', InstructionsBy.LINE, '', 'bye')\n"
        "new = opening.NewSession('work', agent, sys.argv[3:], '/', sys.argv[2])\n"
        "opening.Opener(sys.argv[1]).create(new)"
    )
    killed = subprocess.run(
        [sys.executable, "-c", script, house.home, house.server, *house.words], check=False
    )
    assert killed.returncode == -9
    row = house.inventory.get("work")
    assert (row.pane, row.handing) == ("", OPENING)
    # The row does not know its server yet: the caller's own is looked at.
    house.inventory.change(
        "work", lambda found: found._replace(socket=f"/tmp/tmux-{os.getuid()}/{house.server}")
    )
    found = said(Reconciler(house.home).run())
    assert found == ["it was opened and never noted: closed", "its pane was never opened: terminated"]
    assert Tmux(socket=house.server).panes() == {}


def test_leases_of_living_sessions_are_renewed(house: SessionHouse) -> None:
    """A job whose pane lives keeps its lease; its idle limit runs on."""
    house.open()
    store = busy(house)
    before = store.get("0000abcd")
    wait_for(lambda: store.clock.now() > time.time() - 1)
    SessionKeeper(house.home, SystemClock()).step()
    after = store.get("0000abcd")
    assert before.lease is not None
    assert after.lease is not None
    assert after.lease.expires_at > before.lease.expires_at
    assert after.idle_since == before.idle_since


def test_nothing_is_pasted_while_nobody_can_tell_what_the_job_asks(house: SessionHouse) -> None:
    """A record that cannot be read may hold an open request, which a text would answer."""
    house.open()
    store = busy(house)
    Path(store.home, "jobs", "0000abcd.json").write_bytes(b"{")
    sent = house.sender.send("work", "hello")
    assert sent.word == DEFERRED
    assert "0000abcd" in sent.detail


def test_a_silent_agent_is_asked_and_stopped(house: SessionHouse) -> None:
    """By policy: asked in its pane once, or stopped."""
    house.open()
    house.inventory.change("work", lambda row: row._replace(idle_seconds=0.001, idle_policy="ask"))
    wait_for(lambda: Reconciler(house.home).run(), what="the limit to pass")
    wait_for(house.told, what="the question")
    assert "Are you still at work?" in house.told()[0]
    house.inventory.change("work", lambda row: row._replace(idle_policy="stop", idle_told_ms=0))
    wait_for(lambda: Reconciler(house.home).run(), what="the limit to pass")
    row = house.inventory.get("work")
    assert (row.state, row.ended_by, row.reason) == ("stopped", "stop", "graceful stop by idle limit")


def test_a_silent_agent_is_started_again(house: SessionHouse) -> None:
    """By policy: another process in another pane, counted."""
    house.open()
    before = house.inventory.get("work")
    house.inventory.change("work", lambda row: row._replace(idle_seconds=0.001, idle_policy="restart"))
    wait_for(lambda: Reconciler(house.home).run(), what="the limit to pass")
    row = house.inventory.get("work")
    assert (row.state, row.restarts) == ("running", 1)
    assert (row.pid, row.life) != (before.pid, before.life)
    wait_for(lambda: "you>" in house.screen(), what="the agent")


def test_an_idle_agent_is_told_of_a_message_once(
    house: SessionHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line in its pane says that there is a message; once a delivery, and none for what was read."""
    monkeypatch.setattr(duty, "_SILENT_SECONDS", 0.0)
    house.open()
    keeper = SessionKeeper(house.home, SystemClock())
    send(house.inventory.store, NewMessage("lead", ("work",), summary="look here"))
    keeper.step()
    wait_for(house.told, what="the line")
    keeper.step()
    monkeypatch.setattr(duty, "_AGAIN_SECONDS", 0.0)
    again = SessionKeeper(house.home, SystemClock())
    again.step()
    assert house.told() == ["heard You have a message: jobwire inbox fetch --agent work"]
    assert again.facts()["nudges"] == 0
    send(house.inventory.store, NewMessage("lead", ("work",), summary="and here"))
    again.step()
    wait_for(lambda: len(house.told()) == 2, what="the line about the other message")


def test_two_hundred_panes_take_one_call(house: SessionHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many sessions a server has, it is asked once; without any, not at all."""
    calls: list[list[str]] = []
    ask = Tmux._ask

    def counted(self: Tmux, words: list[str], **more: object) -> object:
        calls.append(words)
        return ask(self, words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Tmux, "_ask", counted)
    assert Reconciler(house.home).run() == []
    assert calls == []
    house.open()
    row = house.inventory.get("work")
    for number in range(200):
        house.inventory.begin(SessionRow(*row._replace(name=f"s{number}")))
    calls.clear()
    assert Reconciler(house.home).run() == []
    assert len(calls) == 1


def test_a_home_whose_record_is_gone(house: SessionHouse) -> None:
    """A job whose record was purged holds no session."""
    house.open()
    house.inventory.change("work", lambda row: row._replace(job_id="deadbeef", handing=HANDED))
    assert said(Reconciler(house.home).run()) == ["job deadbeef is over: free"]
    assert isinstance(JobRecord, type)
    assert Path(house.home, "sessions", "work", "output.log").exists()
