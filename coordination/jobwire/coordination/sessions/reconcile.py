"""What is done about a session that is not as the inventory says: tmux, inventory and jobs compared. Pure.

`judge` says what it finds; whoever carries it out looks again under the row's transaction. What is carried
out leaves nothing to find: a second look at the same facts is empty.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import NamedTuple

from jobwire.coordination.sessions.states import EndedBy, IdlePolicy, SessionState
from jobwire.coordination.sessions.stored import HANDED, HANDING, SessionRow

# So often an agent that falls silent is started again; then a person is told instead.
MAX_RESTARTS = 3


class Remedy(StrEnum):
    """What is done about a finding."""

    FAIL_JOB = "fail_job"
    FREE = "free"
    NOTE_HANDED = "note_handed"
    TERMINATE = "terminate"
    NOTE_STOPPED = "note_stopped"
    CLOSE_PANE = "close_pane"
    REPORT_IDLE = "report_idle"
    ASK = "ask"
    STOP = "stop"
    RESTART = "restart"


class PaneFact(NamedTuple):
    """A pane that is there: its process, which life of that number, and the second of its last output."""

    pid: int
    life: str
    activity: int


class JobFact(NamedTuple):
    """A session's job. `heard`: its agent has said something."""

    terminal: bool
    attention: bool
    heard: bool
    status: str = ""


class Facts(NamedTuple):
    """What was seen at one moment. `servers`: which run of each tmux server answers; absent: none does.

    `strays`: panes that were opened for a session and stand in no row. Jobs that are not there are absent.
    """

    now: float
    boot: str
    panes: Mapping[tuple[str, str], PaneFact] = {}
    servers: Mapping[str, str] = {}
    jobs: Mapping[str, JobFact] = {}
    openers: Collection[str] = ()
    strays: Mapping[str, Collection[str]] = {}


class SessionFinding(NamedTuple):
    """One thing that is not as it should be, in words, and what is done about it."""

    session: str
    remedy: Remedy
    text: str
    job_id: str = ""
    ended_by: EndedBy = EndedBy.NOBODY
    pane: str = ""

    def to_json(self) -> dict[str, object]:
        """Return it as commands print it."""
        return {
            "session": self.session,
            "action": self.remedy.value,
            "text": self.text,
            "job_id": self.job_id,
            "pane": self.pane,
        }


def judge(row: SessionRow, facts: Facts) -> list[SessionFinding]:
    """Return what is found about one session, in the order in which it is carried out."""
    if row.standing in {SessionState.STOPPED, SessionState.TERMINATED}:
        return []
    if row.opener and row.opener in facts.openers:
        return []  # somebody is at it
    stray = [
        SessionFinding(row.name, Remedy.CLOSE_PANE, "it was opened and never noted: closed", pane=pane)
        for pane in sorted(facts.strays.get(row.name, ()))
        if pane != row.pane and row.opener
    ]
    job = facts.jobs.get(row.job_id) if row.job_id else None
    works = job is not None and not job.terminal
    if is_there(row, facts):
        return stray + _living(row, job, facts)
    by = _ended_by(row, facts)
    why = _GONE[by] if row.pane else "its pane was never opened"
    found = stray
    if works:
        text = f"{why}: job {row.job_id} ends in error"
        found = [*found, SessionFinding(row.name, Remedy.FAIL_JOB, text, row.job_id)]
    if row.once and row.pane and not works:
        text = "its command has ended: stopped"
        return [*found, SessionFinding(row.name, Remedy.NOTE_STOPPED, text, ended_by=EndedBy.ITSELF)]
    return [*found, SessionFinding(row.name, Remedy.TERMINATE, f"{why}: terminated", ended_by=by)]


def is_there(row: SessionRow, facts: Facts) -> bool:
    """Tell whether the session's pane is there, with the process that was started in it."""
    pane = facts.panes.get((row.socket, row.pane))
    return pane is not None and (pane.pid, pane.life) == (row.pid, row.life)


_GONE = {
    EndedBy.PANE: "its pane is gone",
    EndedBy.SERVER: "its pane is gone, and its tmux server with it",
    EndedBy.REBOOT: "the machine was started again",
}


def _ended_by(row: SessionRow, facts: Facts) -> EndedBy:
    if row.life and not row.life.startswith(f"{facts.boot}."):
        return EndedBy.REBOOT
    return EndedBy.SERVER if row.server and facts.servers.get(row.socket) != row.server else EndedBy.PANE


def _living(row: SessionRow, job: JobFact | None, facts: Facts) -> list[SessionFinding]:
    over = row.job_id and (job is None or job.terminal)
    if over and not row.once:
        return [SessionFinding(row.name, Remedy.FREE, f"job {row.job_id} is over: free", row.job_id)]
    if not over and row.job_id and row.handing != HANDED:
        if job is not None and job.heard:
            text = f"job {row.job_id} has been heard of: its instructions arrived"
            return [SessionFinding(row.name, Remedy.NOTE_HANDED, text, row.job_id)]
        known = "it is not known whether its instructions arrived" if row.handing == HANDING else _NOT_HANDED
        text = f"{known}: job {row.job_id} ends in error"
        return [
            SessionFinding(row.name, Remedy.FAIL_JOB, text, row.job_id),
            SessionFinding(row.name, Remedy.FREE, f"job {row.job_id} is over: free", row.job_id),
        ]
    if row.opener and not row.job_id:
        return [SessionFinding(row.name, Remedy.FREE, "it is open", row.job_id)]
    return _idle(row, job, facts)


_NOT_HANDED = "jobwire ended before its instructions were handed over"


def _idle(row: SessionRow, job: JobFact | None, facts: Facts) -> list[SessionFinding]:
    activity = facts.panes[row.socket, row.pane].activity
    silent = facts.now - activity
    asks = job is not None and job.attention
    if (
        row.idle_seconds is None
        or asks
        or silent <= row.idle_seconds
        or row.standing is not SessionState.RUNNING
    ):
        return []
    if row.idle_told_ms >= activity * 1000:
        return []  # this silence was told
    policy = IdlePolicy(row.idle_policy)
    said = f"its agent is silent for {silent:.0f} s"
    if policy is IdlePolicy.RESTART and row.restarts >= MAX_RESTARTS:
        return [
            SessionFinding(
                row.name, Remedy.REPORT_IDLE, f"{said}, started again {MAX_RESTARTS} times already"
            )
        ]
    remedy, what = _WHEN_IDLE[policy]
    return [SessionFinding(row.name, remedy, f"{said}: {what}", row.job_id)]


_WHEN_IDLE = {
    IdlePolicy.REPORT: (Remedy.REPORT_IDLE, "reported"),
    IdlePolicy.ASK: (Remedy.ASK, "asked"),
    IdlePolicy.STOP: (Remedy.STOP, "stopped"),
    IdlePolicy.RESTART: (Remedy.RESTART, "started again"),
}
