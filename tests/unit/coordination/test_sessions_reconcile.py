"""Tmux, inventory and jobs compared: what is found, what is done about it, and that it is done then."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.coordination.sessions.inventory import freed
from jobwire.coordination.sessions.reconcile import (
    MAX_RESTARTS,
    Facts,
    JobFact,
    PaneFact,
    Remedy,
    SessionFinding,
    judge,
)
from jobwire.coordination.sessions.states import EndedBy, may_become
from jobwire.coordination.sessions.stored import HANDED, HANDING, OPENING, SessionRow

SOCKET, PANE, LIFE = "/tmp/tmux-0/default", "%1", "boot.7"
ALIVE = SessionRow(
    "work", "running", "claude", "paste", "work", "", '["claude"]', "/src", SOCKET,
    pane=PANE, pid=70, life=LIFE, server="9.1",
)  # fmt: skip
WORKS = JobFact(terminal=False, attention=False, heard=True)
OVER = WORKS._replace(terminal=True)
HERE = {(SOCKET, PANE): PaneFact(70, LIFE, 1000)}
FACTS = Facts(now=1010.0, boot="boot", panes=HERE, servers={SOCKET: "9.1"}, jobs={"0000abcd": WORKS})
BUSY = ALIVE._replace(job_id="0000abcd", handing=HANDED)


def remedies(row: SessionRow, facts: Facts) -> list[Remedy]:
    """Return what is done."""
    return [finding.remedy for finding in judge(row, facts)]


@pytest.mark.parametrize(
    "row", [ALIVE, BUSY, ALIVE._replace(state="archived"), ALIVE._replace(state="stopped")]
)
def test_what_is_as_it_should_be_is_left_alone(row: SessionRow) -> None:
    """A pane with its process, a job that runs in it, one left alive, one that has ended."""
    assert judge(row, FACTS) == []


@pytest.mark.parametrize(
    ("facts", "by"),
    [
        (FACTS._replace(panes={}), EndedBy.PANE),
        (FACTS._replace(panes={(SOCKET, PANE): PaneFact(71, LIFE, 0)}), EndedBy.PANE),
        (FACTS._replace(panes={(SOCKET, PANE): PaneFact(70, "boot.8", 0)}), EndedBy.PANE),
        (FACTS._replace(panes={}, servers={}), EndedBy.SERVER),
        (FACTS._replace(panes={}, servers={SOCKET: "8.2"}), EndedBy.SERVER),
        (FACTS._replace(panes={}, boot="later"), EndedBy.REBOOT),
    ],
)
def test_a_pane_that_is_gone_ends_session_and_job(facts: Facts, by: EndedBy) -> None:
    """Gone, given away, gone with server or machine: the job in error, the session terminated."""
    failed, ended = judge(BUSY, facts)
    assert (failed.remedy, failed.job_id) == (Remedy.FAIL_JOB, "0000abcd")
    assert (ended.remedy, ended.ended_by) == (Remedy.TERMINATE, by)
    assert remedies(ALIVE, facts) == [Remedy.TERMINATE]


def test_a_job_that_is_over_frees_its_session() -> None:
    """Finished, or its record purged: the session is free for the next."""
    assert remedies(BUSY, FACTS._replace(jobs={"0000abcd": OVER})) == [Remedy.FREE]
    assert remedies(BUSY, FACTS._replace(jobs={})) == [Remedy.FREE]


def test_an_agent_of_one_job_ends_with_it() -> None:
    """While its pane is there nothing is done; then it is stopped, and with its job unfinished terminated."""
    once = BUSY._replace(delivery="argument")
    over = FACTS._replace(jobs={"0000abcd": OVER})
    assert remedies(once, over) == []
    assert remedies(once, over._replace(panes={}, servers={})) == [Remedy.NOTE_STOPPED]
    assert remedies(once, FACTS._replace(panes={})) == [Remedy.FAIL_JOB, Remedy.TERMINATE]


def test_whoever_is_at_it_is_left_to_it() -> None:
    """While the process that opens or hands over lives, nobody else judges."""
    for handing in (OPENING, HANDING):
        row = BUSY._replace(handing=handing, opener="5/boot.1")
        assert judge(row, FACTS._replace(openers={"5/boot.1"}, panes={})) == []


@pytest.mark.parametrize("handing", [OPENING, HANDING])
def test_a_hand_over_that_was_cut_off_is_reported(handing: str) -> None:
    """Not handed over, or nobody knows: the job ends in error and says so; heard of, it goes on."""
    row = BUSY._replace(handing=handing, opener="5/boot.1")
    silent = FACTS._replace(jobs={"0000abcd": WORKS._replace(heard=False)})
    assert remedies(row, silent) == [Remedy.FAIL_JOB, Remedy.FREE]
    assert remedies(row, FACTS) == [Remedy.NOTE_HANDED]


def test_a_pane_that_was_never_noted_is_closed() -> None:
    """The opener was killed between pane and row: the pane is ours by its command, and no job has it."""
    row = ALIVE._replace(pane="", pid=0, life="", opener="5/boot.1", handing=OPENING)
    found = judge(row, FACTS._replace(strays={"work": ["%4"]}))
    assert [(one.remedy, one.pane) for one in found] == [(Remedy.CLOSE_PANE, "%4"), (Remedy.TERMINATE, "")]


@pytest.mark.parametrize(
    ("policy", "remedy"),
    [
        ("report", Remedy.REPORT_IDLE),
        ("ask", Remedy.ASK),
        ("stop", Remedy.STOP),
        ("restart", Remedy.RESTART),
    ],
)
def test_a_silent_agent(policy: str, remedy: Remedy) -> None:
    """Past its limit the policy is done, once a silence; not while its job asks, nor when archived."""
    row = ALIVE._replace(idle_seconds=5.0, idle_policy=policy)
    assert remedies(row, FACTS) == [remedy]
    assert remedies(row, FACTS._replace(now=1004.0)) == []
    assert remedies(row._replace(idle_told_ms=1_005_000), FACTS) == []
    assert remedies(row._replace(state="archived"), FACTS) == []
    asks = FACTS._replace(jobs={"0000abcd": WORKS._replace(attention=True)})
    assert remedies(row._replace(job_id="0000abcd", handing=HANDED), asks) == []


def test_starting_again_has_a_cap() -> None:
    """After so many times a person is told instead."""
    row = ALIVE._replace(idle_seconds=5.0, idle_policy="restart", restarts=MAX_RESTARTS)
    assert remedies(row, FACTS) == [Remedy.REPORT_IDLE]


@dataclass
class World:
    """A row and the facts about it; carrying a finding out changes both as the commands do."""

    row: SessionRow
    facts: Facts

    def carry_out(self, finding: SessionFinding) -> None:
        """Do what the finding says."""
        jobs = dict(self.facts.jobs)
        if finding.remedy is Remedy.FAIL_JOB:
            jobs[finding.job_id] = jobs[finding.job_id]._replace(terminal=True)
        elif finding.remedy is Remedy.FREE:
            self.row = freed(self.row)
        elif finding.remedy is Remedy.NOTE_HANDED:
            self.row = self.row._replace(handing=HANDED, opener="")
        elif finding.remedy in {Remedy.TERMINATE, Remedy.NOTE_STOPPED}:
            state = "terminated" if finding.remedy is Remedy.TERMINATE else "stopped"
            assert may_become(self.row.standing, type(self.row.standing)(state))
            self.row = freed(self.row)._replace(state=state, pane="", pid=0, life="")
        elif finding.remedy is Remedy.CLOSE_PANE:
            self.facts = self.facts._replace(strays={})
        else:
            self.row = self.row._replace(idle_told_ms=int(self.facts.now * 1000))
        self.facts = self.facts._replace(jobs=jobs)


ROWS = st.builds(
    BUSY._replace,
    state=st.sampled_from(["running", "archived"]),
    delivery=st.sampled_from(["paste", "line", "argument"]),
    job_id=st.sampled_from(["", "0000abcd"]),
    handing=st.sampled_from([OPENING, HANDING, HANDED]),
    opener=st.sampled_from(["", "5/boot.1"]),
    pane=st.sampled_from([PANE, ""]),
    idle_seconds=st.sampled_from([None, 5.0]),
    idle_policy=st.sampled_from(["report", "ask", "stop", "restart"]),
    restarts=st.integers(0, 4),
)
LOOKS = st.builds(
    FACTS._replace,
    boot=st.sampled_from(["boot", "later"]),
    panes=st.sampled_from([HERE, {}, {(SOCKET, PANE): PaneFact(1, "boot.8", 0)}]),
    servers=st.sampled_from([{SOCKET: "9.1"}, {}]),
    jobs=st.dictionaries(
        st.just("0000abcd"), st.builds(JobFact, st.booleans(), st.booleans(), st.booleans())
    ),
    openers=st.sampled_from([(), ("5/boot.1",)]),
    strays=st.sampled_from([{}, {"work": [PANE]}, {"work": ["%4"]}]),
)


@given(row=ROWS, facts=LOOKS)
def test_one_look_is_enough(row: SessionRow, facts: Facts) -> None:
    """What was done is found no more, but for a freed session's silence; no job is left without a pane."""
    world = World(row, facts)
    found = judge(row, facts)
    for finding in found:
        world.carry_out(finding)
    left = judge(world.row, world.facts)
    assert not left or {Remedy.FREE, Remedy.NOTE_HANDED} & {one.remedy for one in found}
    assert {one.remedy for one in left} <= {Remedy.REPORT_IDLE, Remedy.ASK, Remedy.STOP, Remedy.RESTART}
    for finding in left:
        world.carry_out(finding)
    assert judge(world.row, world.facts) == []
    if world.row.opener not in facts.openers or not world.row.opener:
        gone = facts.panes.get((SOCKET, world.row.pane)) != HERE[SOCKET, PANE]
        job = world.facts.jobs.get(row.job_id)
        assert not (gone and job is not None and not job.terminal)
