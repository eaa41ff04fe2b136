"""A job is cancelled while its agent lives on: the agent is interrupted by its own key, once."""

import sys
from pathlib import Path

import pytest

from jobwire.coordination.sessions.stored import HANDED
from jobwire.core.clock import SystemClock
from jobwire.core.lease import LeaseGrant
from jobwire.core.signature import new_token
from jobwire.jobs.fold import claim
from jobwire.registry.spec import JobSpec, new_record
from jobwire.registry.store import RecordStore
from jobwire.runner.job_end import cancel_job, fail_job
from jobwire.sessions.job_of_session import owner_of
from jobwire.sessions.reconciling import Reconciler
from jobwire.testing import wait_for
from jobwire.testing.session_house import SessionHouse, settle

_JOB = "0000abcd"
# Interrupted it says so, and goes on.
_AGENT = """\
import sys
while True:
    try:
        print("you> ", end="", flush=True)
        if not sys.stdin.readline():
            sys.exit(0)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


# Interrupted by Escape it puts into its prompt what it was told; C-u empties the prompt.
_PUTS_BACK = """\
import sys, tty
tty.setraw(0)
print("you> ", end="", flush=True)
while key := sys.stdin.buffer.raw.read(1):
    said = {b"\\x1b": "\\r\\nyou> do the first", b"\\x15": "\\r\\nemptied\\r\\nyou> "}.get(key, key.decode())
    print(said, end="", flush=True)
"""


@pytest.fixture
def busy(house: SessionHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SessionHouse:
    """Give a session whose agent takes C-c as an interrupt, and works on a job."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(settle(tmp_path, "echo | line | | bye | | C-c")))
    return at_work(house, _AGENT)


def at_work(house: SessionHouse, program: str) -> SessionHouse:
    """Open a session of the agent, at work on a job."""
    house.opener.create(house.new()._replace(command=[sys.executable, "-c", program]))
    wait_for(lambda: "you>" in house.screen(), what="the prompt")
    store = RecordStore(house.home, clock=SystemClock())
    now = store.clock.now()
    record = new_record(JobSpec(title="a job", agent_session="work"), _JOB, new_token(), now)
    store.create(claim(record, LeaseGrant(owner_of("work")), now))
    house.inventory.change("work", lambda row: row._replace(job_id=_JOB, handing=HANDED))
    return house


def test_a_cancelled_job_interrupts_its_agent_once(busy: SessionHouse) -> None:
    """Its key is pressed, one line says so, the agent lives on, and a second look does nothing."""
    assert cancel_job(RecordStore(busy.home), _JOB, "enough")
    (carried,) = Reconciler(busy.home).run()
    assert (carried.done, carried.finding.text) == (
        True,
        f"job {_JOB} was cancelled: its agent is interrupted (C-c)",
    )
    wait_for(lambda: "interrupted" in busy.screen(), what="the agent's word")
    assert Reconciler(busy.home).run() == []
    assert busy.screen().count("interrupted") == 1
    assert busy.inventory.get("work").job_id == ""


def test_a_job_that_ended_otherwise_interrupts_nobody(busy: SessionHouse) -> None:
    """In error, its agent is only free."""
    assert fail_job(RecordStore(busy.home), _JOB, "no")
    (carried,) = Reconciler(busy.home).run()
    assert carried.finding.text == f"job {_JOB} is over: free"
    busy.sender.send("work", "next")
    assert "interrupted" not in busy.screen()


@pytest.mark.parametrize("typed", ["", "mine"])
def test_what_an_agent_puts_back_into_its_prompt_is_removed(
    typed: str, house: SessionHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would stand before the next job; where a person had begun to type nothing is removed."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(settle(tmp_path, "echo | line | | bye | | Escape C-u")))
    at_work(house, _PUTS_BACK)
    if typed:
        house.tmux("send-keys", "-t", "=work:", typed)
        wait_for(lambda: f"you> {typed}" in house.screen(), what="the person's words")
    assert cancel_job(RecordStore(house.home), _JOB, "enough")
    (carried,) = Reconciler(house.home).run()
    assert carried.finding.text.endswith("its agent is interrupted (Escape)")
    wait_for(lambda: "you> do the first" in house.screen(), what="what it puts back")
    if not typed:
        wait_for(lambda: "emptied" in house.screen(), what="an empty prompt")
    house.tmux("send-keys", "-l", "-t", "=work:", "over")
    wait_for(lambda: "over" in house.screen(), what="what was typed last")
    assert ("emptied" in house.screen()) is (not typed)
