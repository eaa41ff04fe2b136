"""`jobwire demo --team`: a lead's plan, worked off by three agents that an autopilot runs.

The agents are shell scripts that behave as agents do: one asks a question, which the demo answers, one fails
the first time, one is reviewed and sent back.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from rich.text import Text

from jobwire.cli.demo import Demo
from jobwire.cli.demo_view import DemoRow, DemoView
from jobwire.coordination import agents
from jobwire.coordination.agents import Joining
from jobwire.coordination.reading import message_of
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.tasks.plan_file import tasks_in
from jobwire.coordination.tasks.stored import TaskView
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.core.clock import Clock, epoch
from jobwire.core.exit_codes import ExitCode
from jobwire.core.override import override
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord
from jobwire.jobs.requests import Answer, open_requests
from jobwire.registry.requests import answer_locked
from jobwire.registry.store import RecordStore
from jobwire.runner.progress import read_line

AGENTS = ("builder", "tester", "reviewer")
_RUN = "default"
_START_SECONDS = 90.0
_WORK_SECONDS = 240.0
_POLL_SECONDS = 0.2
_ANSWER_AFTER_SECONDS = 1.5
_OVER = {"completed", "failed", "cancelled"}
_STATUS_STYLES = {"completed": "green"}
_WORDS = {Status.RUNNING: "progress", Status.COMPLETED: "completed", Status.ERROR: "error"}

PLAN = """\
# A small reader

## Objective

A reader of tables that is tested, documented and released.

## Tasks

| id | title | owner | depends on | accept | review | reviewers | retry delays |
|---|---|---|---|---|---|---|---|
| parser | write the parser | builder | | test -s parser.txt | none | | 1 |
| tests | test the parser | tester | parser | grep -q pass tests.txt | none | | 1 |
| docs | write the manual | builder | parser | test -s docs.txt | required | reviewer | 1 |
| release | make the release | builder | tests, docs | test -s release.txt | none | | 1 |
"""

# Stands in for three coding agents. It knows its work by who it is and which task it got.
SCRIPT = """\
set -eu
sleep 0.5
case "$JOBWIRE_AGENT:$JOBWIRE_TASK" in
builder:parser)
    format=$($JOBWIRE_COMMAND ask "Which tables shall it read?" --choice csv --choice json)
    echo "::progress half of it, 50%"; sleep 1
    echo "it reads $format" | tee parser.txt ;;
tester:tests)
    echo "::progress starting the test host, 20%"; sleep 1
    if ! test -e host-is-up; then touch host-is-up; echo "the test host does not answer"; exit 1; fi
    echo "12 tests pass" | tee tests.txt ;;
builder:docs)
    echo "::progress writing, 60%"; sleep 1
    if grep -q "example" "$JOBWIRE_MESSAGE"; then echo "the manual, with an example" | tee docs.txt
    else echo "the manual" | tee docs.txt; fi ;;
reviewer:docs)
    if grep -q "example" docs.txt; then $JOBWIRE_COMMAND tasks review approve docs
    else $JOBWIRE_COMMAND tasks review reject docs --reason "an example is missing"; fi ;;
builder:release)
    cat parser.txt tests.txt docs.txt > release.txt
    echo "released"
    echo '::bus-send{to="lead" intent="info" message="version 1 is out"}' ;;
esac
"""


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

    def tasks(self, views: Iterable[TaskView], receipts: Iterable[str]) -> list[dict[str, object]]:
        """Print what became of the tasks and what the lead was told; return the tasks as JSON has them."""
        rows: list[dict[str, object]] = [
            {
                "task": task.task_id,
                "title": task.title,
                "owner": task.owner,
                "status": str(task.status),
                "runs": sum(found == (task.task_id, task.owner) for found in self._task_of.values()),
            }
            for task, *_ in views
        ]
        self.print_table(
            "the plan",
            ("task", "what", "owner", "status", ">runs"),
            [
                [
                    Text(str(value), _STATUS_STYLES.get(str(value), "bold red") if name == "status" else "")
                    for name, value in row.items()
                ]
                for row in rows
            ],
        )
        for line in receipts:
            self.say(f"the lead was told: {line}")
        return rows

    @override
    def metrics(self, found: dict[str, Any]) -> None:
        """Print what Spark computed, by task."""
        by_task: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for job in found["jobs"]:
            by_task.setdefault(self._task_of.get(str(job["job_id"]), ("-", "-")), []).append(job)
        self.print_table(
            "what Spark made of the journal, by task",
            ("task", "who", ">jobs", ">failed", ">seconds", ">waited for you"),
            [
                (
                    *(*who, str(len(jobs)), str(sum(job["outcome"] == "error" for job in jobs))),
                    *(f"{sum(job[name] or 0 for job in jobs):.1f}" for name in ("duration_s", "waiting_s")),
                )
                for who, jobs in by_task.items()
            ],
        )
        self.say(f"{sum(found['events'].values())} events")


class TeamDemo(Demo):
    """The demo of a team: broker, registry process and page as in `Demo`; a plan instead of three jobs."""

    @override
    def run(self, *, stay: bool, metrics: bool, as_json: bool) -> int:
        """Start everything, hand over the plan, answer what is asked, and sum up."""
        up, ports = self._host(stay=stay)
        host = up.ready_line(_START_SECONDS)
        store = CoordinationStore(str(self._home))
        with store.changing() as change:
            agents.join(change, "lead", Joining(kind="lead"))
        plan = Tasks(store, "lead")
        plan.add_all(tasks_in(PLAN, _RUN, "markdown"))
        view = TeamView(clock=self._clock, stream=sys.stderr if as_json else sys.stdout)
        view.say(f"broker on localhost:{ports[1]} (TLS 1.3); the plan has {len(plan.graph(_RUN))} tasks")
        spark = self._spark(view) if metrics else None
        self._take_off()
        with view:
            self._follow(plan, RecordStore(self._home), view)
        rows = view.tasks(plan.graph(_RUN), self._receipts(store))
        good = all(row["status"] == "completed" for row in rows)
        if spark is not None:
            self._metrics(view, spark)
        store.close()
        self._page(view, up, host, stay=stay)
        if as_json:
            print(json.dumps({"good": good, "tasks": rows}))
        return int(ExitCode.OK if good else ExitCode.JOB_ERROR)

    def _take_off(self) -> None:
        """Start the autopilot of the three agents, in a folder of theirs."""
        folder = self._folder("team").resolve()
        (folder / "agent.sh").write_text(SCRIPT)
        self._environ["JOBWIRE_COMMAND"] = f"{sys.executable} -m jobwire.cli.main"
        words = ["--agents", ",".join(AGENTS), "--verify", "--json", "--", "sh", str(folder / "agent.sh")]
        self._background("autopilot", "autopilot", *words, folder=folder)

    def _follow(self, plan: Tasks, records: RecordStore, view: TeamView) -> None:
        """Show what happens until every task has ended; answer what is asked, as a person would."""
        until = self._clock.monotonic() + _WORK_SECONDS
        while self._clock.monotonic() < until:
            # Asked first: what is shown of a plan that is over are its jobs' last words.
            over = all(str(one.task.status) in _OVER for one in plan.graph(_RUN))
            for begun in self._begun():
                record = records.get(str(begun["job_id"]))
                view.show(begun, record)
                self._answer_in(records, record)
            if over:
                return
            self._clock.sleep(_POLL_SECONDS)

    def _begun(self) -> list[Mapping[str, object]]:
        """Return what the autopilot says that it began."""
        try:
            text = (self._home.parent / "log" / "autopilot.log").read_text(errors="replace")
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.splitlines() if line.startswith('{"event": "began"')]

    def _answer_in(self, records: RecordStore, record: JobRecord) -> None:
        for asked in open_requests(record.requests):
            if not asked.named or self._clock.now() - epoch(record.updated_at) < _ANSWER_AFTER_SECONDS:
                continue
            with records.locked(record.job_id) as locked:
                answer_locked(locked, asked.id, Answer("csv", "you", "demo"), self._clock.now())

    def _receipts(self, store: CoordinationStore) -> list[str]:
        """Return what the lead was told, in order."""
        values = {"agent_id": "lead", "through": 2**62, "limit": 1000}
        said = [message_of(store, row[1]) for row in store.rows("open_deliveries", values)]
        return [f"{one.from_agent}: {one.summary}" for one in said]
