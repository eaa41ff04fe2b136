"""What `jobwire demo --team` shows: the jobs of the agents as they run, then the tasks."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TextIO

from rich.text import Text

from jobwire.cli.demo_view import DemoRow, DemoView
from jobwire.core.clock import Clock
from jobwire.core.override import override
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord
from jobwire.runner.progress import read_line

_WORDS = {Status.RUNNING: "progress", Status.COMPLETED: "completed", Status.ERROR: "error"}


class TeamRow(NamedTuple):
    """One task at the end: whose, how it ended, and in how many runs."""

    task: str
    title: str
    owner: str
    status: str
    runs: int


class TeamView(DemoView):
    """The view of a team: a row for each job, under the name of its agent."""

    heading = "three agents, one plan"
    widest = 27

    def __init__(self, *, clock: Clock, stream: TextIO) -> None:
        super().__init__({}, clock=clock, stream=stream)
        self._task_of: dict[str, tuple[str, str]] = {}

    def show(self, begun: Mapping[str, object], record: JobRecord) -> None:
        """Show a job as it stands."""
        task = str(begun.get("task_id") or "")
        self._task_of[record.job_id] = (task, str(begun["agent"]))
        event = "permission_required" if record.attention else _WORDS.get(record.status, str(record.status))
        if record.last_seq <= 1:
            event = "started"
        report = read_line(record.detail)
        before = self.rows.get(record.job_id)
        row = DemoRow(
            record.job_id,
            f"{begun['agent']}: {begun['summary']}",
            event,
            record.detail or str(begun["summary"]),
            100.0 if record.status is Status.COMPLETED else report and report.percent,
            record.last_seq,
        )
        if before is None or (before.event, before.detail) != (row.event, row.detail):
            self.say_event(row)
        self.rows[record.job_id] = row

    def runs_of(self, task: str, owner: str) -> int:
        """Return how many jobs an agent had for a task."""
        return sum(found == (task, owner) for found in self._task_of.values())

    def tasks(self, rows: Sequence[TeamRow], receipts: Sequence[str]) -> bool:
        """Print what became of the tasks; tell whether all are completed."""
        table = self.table("the plan")
        for column in ("task", "what", "owner", "status"):
            table.add_column(column, no_wrap=True)
        table.add_column("runs", justify="right")
        for row in rows:
            style = "green" if row.status == "completed" else "bold red"
            table.add_row(row.task, row.title, row.owner, Text(row.status, style=style), str(row.runs))
        self.print(table)
        for line in receipts:
            self.say(f"the lead was told: {line}")
        return all(row.status == "completed" for row in rows)

    @override
    def metrics(self, found: dict[str, Any]) -> None:
        """Print what Spark computed, by task."""
        table = self.table("what Spark made of the journal, by task")
        for column in ("task", "who"):
            table.add_column(column, no_wrap=True)
        for column in ("jobs", "failed", "seconds", "waited for you"):
            table.add_column(column, justify="right", no_wrap=True)
        by_task: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for job in found["jobs"]:
            by_task.setdefault(self._task_of.get(str(job["job_id"]), ("-", "-")), []).append(job)
        for (task, agent), jobs in by_task.items():
            failed = sum(job["outcome"] == "error" for job in jobs)
            seconds = sum(job["duration_s"] or 0 for job in jobs)
            waited = sum(job["waiting_s"] or 0 for job in jobs)
            table.add_row(task, agent, str(len(jobs)), str(failed), f"{seconds:.1f}", f"{waited:.1f}")
        self.print(table)
        self.say(f"{sum(found['events'].values())} events")
