"""An autopilot with real commands: each delivery is a job, and its end decides about the delivery."""

import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from jobwire.coordination import agents, reading, sending, taking
from jobwire.coordination.agents import Joining
from jobwire.coordination.handling.tries import Tries
from jobwire.coordination.message import NewMessage
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.tasks.new_task import NewTask
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.coordination.work import ThreadWork
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import Timeouts
from jobwire.registry.layout import HomeLayout
from jobwire.registry.store import RecordStore
from jobwire.runner.autopilot import Autopilot, AutopilotEvent, AutopilotPlan, open_work
from jobwire.testing.waiting import wait_for

TASK = NewMessage("boss", ("builder",), kind="task", subject="fix the parser", body="it breaks")
QUICK = Tries(3, (0.05, 0.1))


class Flight:
    """A home, and autopilots over it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        home = folder / ".hermes"
        HomeLayout(str(home)).make_layout()
        self.store = CoordinationStore(str(home))
        self.records = RecordStore(str(home))
        self.events: list[AutopilotEvent] = []

    def autopilot(self, command: Sequence[str], **more: object) -> Autopilot:
        """Return an autopilot for builder that ends when nothing is left."""
        values: dict[str, object] = {"tries": QUICK, "until_idle": True, "agents": ["builder"], **more}
        plan = AutopilotPlan(command=list(command), **values)  # type: ignore[arg-type]
        return Autopilot(
            self.store,
            plan,
            tell=self.events.append,
            warn=self.events.append,  # type: ignore[arg-type]
            environ=dict(os.environ),
            directory=self.folder,
        )

    def fly(self, script: str, **more: object) -> list[str]:
        """Run a shell script for all that there is; return what happened, without the beginnings."""
        begun = len(self.events)
        self.autopilot(["sh", "-c", script], **more).run()
        return [one.event for one in self.events[begun:] if one.event != "began"]

    def send(self, **more: object) -> str:
        """Send builder a task; return its thread."""
        return sending.send(self.store, TASK._replace(**more)).thread_id  # type: ignore[arg-type]

    def last(self, thread_id: str) -> tuple[str, str, str]:
        """Return kind, summary and body of a thread's last message."""
        found = reading.messages_of(self.store, thread_id)[-1]
        return found.kind, found.summary, found.body


@pytest.fixture
def flight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flight:
    """Give a home without messages, and nothing of the user's own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("JOBWIRE_JOB", "JOBWIRE_AGENT", "JOBWIRE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return Flight(tmp_path)


def test_a_task_is_a_job_and_its_output_the_receipt(flight: Flight) -> None:
    """The message reaches the command by files and environment; its last words are the receipt."""
    thread = flight.send()
    script = 'cat; cat "$JOBWIRE_MESSAGE"; echo "$JOBWIRE_AGENT $JOBWIRE_THREAD"; echo 12%; echo it works'
    assert flight.fly(script) == ["done"]
    kind, summary, body = flight.last(thread)
    assert (kind, summary) == ("result", "it works")
    assert body.count("it breaks") == 2
    assert f"builder {thread}" in body
    found = reading.thread_of(flight.store, thread)
    record = flight.records.get(str(found.job_id))
    assert (found.status, record.status, record.lease) == ("done", Status.COMPLETED, None)
    assert not taking.may_take(flight.store, "builder")
    payload = json.loads(str(reading.messages_of(flight.store, thread)[-1].payload))
    assert (payload["job_id"], payload["exit_status"]) == (record.job_id, 0)


def test_the_text_of_a_message_is_never_a_command(flight: Flight) -> None:
    """Quotes, dollars and line breaks of a message reach the command as they are, and nothing runs them."""
    body = '"; touch owned; $(touch owned) `touch owned`\n--version'
    thread = flight.send(subject="$(touch owned)", body=body)
    assert flight.fly('cp "$JOBWIRE_MESSAGE_JSON" said.json; echo ok') == ["done"]
    assert not (flight.folder / "owned").exists()
    said = json.loads((flight.folder / "said.json").read_text())
    assert (said["body"], said["summary"], said["thread_id"]) == (body, "$(touch owned)", thread)


def test_a_failure_is_tried_again_and_then_dead(flight: Flight) -> None:
    """Three runs, each a new job of the thread, then a dead letter with its reason; redrive runs it again."""
    thread = flight.send()
    assert flight.fly("echo no >&2; exit 3") == ["again", "again", "dead"]
    jobs = {one.job_id for one in flight.events}
    assert len(jobs) == 3
    (dead,) = taking.dead_of(flight.store)
    assert (dead.delivery.last_error, dead.delivery.attempts) == ("exit status 3", 3)
    assert reading.thread_of(flight.store, thread).status == "failed"
    taking.redrive(flight.store, dead.message.id, None, by="boss")
    assert flight.fly("echo now it works") == ["done"]
    assert reading.thread_of(flight.store, thread).status == "done"


def test_the_delays_grow(flight: Flight) -> None:
    """Between two tries lies the next delay; the thread waits as pending."""
    thread = flight.send()
    autopilot = flight.autopilot(["false"], tries=Tries(3, (900.0,)), until_idle=False)
    thread_of_run = threading.Thread(target=autopilot.run)
    thread_of_run.start()
    wait_for(lambda: [one for one in flight.events if one.event == "again"])
    autopilot.stop()
    thread_of_run.join()
    found = reading.thread_of(flight.store, thread)
    assert (found.status, found.job_id, found.jobs) == ("pending", None, 1)
    held = flight.store.rows("open_deliveries", {"agent_id": "builder", "through": 2**62, "limit": 9})
    delay = held[0][5] / 1000 - flight.store.clock.now()
    assert 700 < delay < 1000


@pytest.mark.parametrize("program", ["no-such-program", "./not-executable"])
def test_what_cannot_be_executed_is_dead_at_once(flight: Flight, program: str) -> None:
    """A command that is missing, or is no program, is not tried again."""
    (flight.folder / "not-executable").write_text("just text\n")
    flight.send()
    autopilot = flight.autopilot([program])
    autopilot.run()
    assert autopilot.ended == {"dead": 1}
    (dead,) = taking.dead_of(flight.store)
    assert dead.delivery.attempts == 1


def test_a_script_that_ends_with_127_is_tried_again(flight: Flight) -> None:
    """What the command itself could not find may be there the next time."""
    flight.send()
    assert flight.fly("exit 127")[0] == "again"


def test_a_cancelled_job_is_not_tried_again(flight: Flight) -> None:
    """Who cancels the thread ends the command, and the delivery is done with."""
    thread = flight.send()

    def cancel(event: AutopilotEvent) -> None:
        flight.events.append(event)
        if event.event == "began":
            ThreadWork(flight.store, "boss", environ={}).cancel(thread, "no longer wanted")

    plan = AutopilotPlan(["builder"], ["sleep", "600"], tries=QUICK, until_idle=True)
    autopilot = Autopilot(
        flight.store, plan, tell=cancel, warn=print, environ=dict(os.environ), directory=flight.folder
    )
    autopilot.run()
    assert autopilot.ended == {"cancelled": 1}
    assert reading.thread_of(flight.store, thread).status == "cancelled"
    assert taking.dead_of(flight.store) == []


def test_directives_of_the_last_words_are_sent_once_it_is_done(flight: Flight) -> None:
    """A try that fails sends nothing; the one that is done does, each directive once."""
    with flight.store.changing() as change:
        agents.join(change, "reviewer", Joining(incarnation="1"))
    flight.send()
    script = """echo '::bus-send{to="reviewer" intent="review" message="see"}'
    test -e ok || { touch ok; exit 1; }"""
    assert flight.fly(script) == ["again", "done"]
    found = flight.store.rows("open_deliveries", {"agent_id": "reviewer", "through": 2**62, "limit": 9})
    assert len(found) == 1


def test_a_lead_answers_a_receipt_with_directives(flight: Flight) -> None:
    """Row 31: the lead's command is run for a receipt, and what it asks for is sent and done."""
    with flight.store.changing() as change:
        agents.join(change, "boss", Joining(kind="lead", incarnation="1"))
    flight.send()
    script = """case "$JOBWIRE_AGENT" in
    boss)
        test -e asked || echo '::bus-send{to="builder" intent="implement" message="and the tests"}'
        touch asked;;
    *) echo "done: $(head -1 "$JOBWIRE_MESSAGE")";;
    esac"""
    assert flight.fly(script, agents=["builder", "boss"]) == ["done"] * 4
    assert "done: # and the tests" in [one.detail for one in flight.events]


def test_a_question_is_answered_in_its_thread(flight: Flight) -> None:
    """What the command says is the answer, where the question was asked."""
    sent = sending.send(flight.store, NewMessage("boss", ("builder",), kind="question", summary="2+2?"))
    assert flight.fly("echo 4") == ["done"]
    assert flight.last(sent.thread_id)[:2] == ("answer", "4")


def test_a_request_of_the_command_is_answered(flight: Flight) -> None:
    """A `::question` waits for a person, and its answer is the command's input."""
    from jobwire.jobs.requests import Answer, open_requests  # noqa: PLC0415 - of this test alone
    from jobwire.registry.requests import answer_locked  # noqa: PLC0415 - as above

    flight.send()
    autopilot = flight.autopilot(
        ["sh", "-c", "echo '::question which port?'; read port; echo port $port"], answer_stdin=True
    )
    flying = threading.Thread(target=autopilot.run)
    flying.start()
    wait_for(lambda: flight.events)
    job_id = flight.events[0].job_id
    wait_for(lambda: open_requests(flight.records.get(job_id).requests))
    with flight.records.locked(job_id) as locked:
        asked = open_requests(locked.record.requests)[0]
        answer_locked(locked, asked.id, Answer("8080", "person", "test"), flight.store.clock.now())
    flying.join()
    assert autopilot.ended == {"done": 1}
    assert flight.events[-1].detail == "port 8080"


def test_serial_never_overlaps(flight: Flight) -> None:
    """Row 32: one at a time in the run, also between two autopilots; without it agents go side by side."""
    script = 'mkdir busy || exit 9; sleep 0.1; rmdir busy; echo "$JOBWIRE_AGENT" >> order'
    names = ["builder", "tester", "writer"]
    for name in names * 2:
        flight.send(to=(name,))
    flights = [flight.autopilot(["sh", "-c", script], agents=names, serial=True) for _ in range(2)]
    threads = [threading.Thread(target=one.run) for one in flights]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sum((one.ended["done"] for one in flights), 0) == 6
    assert sorted((flight.folder / "order").read_text().split()) == sorted(names * 2)


def test_agents_work_side_by_side(flight: Flight) -> None:
    """Two agents' commands that wait for each other both end; with one in flight at most they could not."""
    script = 'touch "$JOBWIRE_AGENT"; while ! test -e builder -a -e tester; do sleep 0.02; done'
    for name in ("builder", "tester"):
        flight.send(to=(name,))
    assert flight.fly(script, agents=["builder", "tester"]) == ["done", "done"]


@pytest.mark.parametrize("limit", ["most", "per_run"])
def test_no_more_than_so_many_at_a_time(flight: Flight, limit: str) -> None:
    """The cap holds over all agents."""
    names = ["builder", "tester", "writer"]
    for name in names:
        flight.send(to=(name,))
    script = "mkdir busy || exit 9; sleep 0.1; rmdir busy"
    assert flight.fly(script, agents=names, **{limit: 1}) == ["done"] * 3


def test_acceptance_lines_are_run_where_they_are_allowed(flight: Flight) -> None:
    """`--verify` runs what the user allows, as words without a shell; what fails is no success."""
    thread = flight.send(acceptance=("test -e made", "touch owned; true"))
    allowed = ["test *"]
    assert flight.fly("touch made; echo it works", verify=True, allowed=allowed) == ["done"]
    body = flight.last(thread)[2]
    assert "- ok: `test -e made`" in body
    assert "Not run: 1 lines" in body
    assert not (flight.folder / "owned").exists()
    flight.send(acceptance=("test -e never",))
    assert flight.fly("echo it works", verify=True, allowed=allowed) == ["again", "again", "dead"]
    (dead,) = taking.dead_of(flight.store)
    assert dead.delivery.last_error == "not accepted: test -e never: exit status 1"


def test_an_acceptance_line_has_a_time_limit(flight: Flight) -> None:
    """What hangs is ended with all it started, and is no success."""
    flight.send(acceptance=("sh -c 'sleep 600 & sleep 600'",))
    ended = flight.fly("true", verify=True, allowed=["*"], verify_seconds=0.3, tries=Tries(1))
    assert ended == ["dead"]
    assert "not finished within 0.3 s" in taking.dead_of(flight.store)[0].delivery.last_error


def test_a_command_that_hangs_is_ended_by_its_limits(flight: Flight) -> None:
    """The wall limit ends it also where no registry process looks on."""
    flight.send()
    ended = flight.fly("sleep 600", timeouts=Timeouts(wall_seconds=0.5), tries=Tries(1))
    assert ended == ["dead"]
    assert "wall timeout" in taking.dead_of(flight.store)[0].delivery.last_error


def test_invalid_text_and_floods_are_a_receipt(flight: Flight) -> None:
    """Bytes that are no text, and more output than anybody reads, change nothing about the end."""
    thread = flight.send()
    assert flight.fly("head -c 5000000 /dev/urandom; printf '\\n\\377\\376 it works'") == ["done"]
    kind, summary, body = flight.last(thread)
    assert (kind, summary) == ("result", "�� it works")
    assert len(body) < 100_000


def test_a_stop_lets_the_present_one_end(flight: Flight) -> None:
    """The first stop waits for what runs and begins nothing more; the second gives it back."""
    threads = [flight.send(), flight.send()]
    go = flight.folder / "go"
    autopilot = flight.autopilot(["sh", "-c", "while ! test -e go; do sleep 0.02; done"], until_idle=False)
    flying = threading.Thread(target=autopilot.run)
    flying.start()
    wait_for(lambda: flight.events)
    autopilot.stop()
    go.touch()
    flying.join()
    statuses = [reading.thread_of(flight.store, one).status for one in threads]
    assert statuses == ["done", "pending"]
    go.unlink()
    autopilot = flight.autopilot(["sleep", "600"], until_idle=False)
    flying = threading.Thread(target=autopilot.run)
    flying.start()
    wait_for(lambda: len([one for one in flight.events if one.event == "began"]) == 2)
    autopilot.stop()
    autopilot.stop()
    flying.join()
    assert autopilot.ended == {"given_back": 1}
    assert reading.thread_of(flight.store, threads[1]).status == "pending"
    assert flight.fly("true") == ["done"]


def test_a_worker_that_is_killed_is_tried_again(flight: Flight) -> None:
    """Its command is ended too, and the next try is another job."""
    flight.send()
    script = "echo $$ > pid; test -e second && exit 0; touch second; sleep 600"
    autopilot = flight.autopilot(["sh", "-c", script])
    flying = threading.Thread(target=autopilot.run)
    flying.start()
    pid = flight.folder / "pid"
    wait_for(lambda: pid.exists() and pid.read_text().strip())
    command = int(pid.read_text())
    os.kill(_parent_of(command), signal.SIGKILL)
    flying.join()
    assert autopilot.ended == {"again": 1, "done": 1}
    wait_for(lambda: not Path(f"/proc/{command}").exists())


def test_what_is_not_wanted_is_put_aside(flight: Flight) -> None:
    """A message that asks for nothing runs nothing, and does not come again."""
    sending.send(flight.store, NewMessage("boss", ("builder",), kind="event", summary="for your information"))
    assert flight.fly("touch ran") == []
    assert not (flight.folder / "ran").exists()
    assert not taking.may_take(flight.store, "builder")


def test_a_file_that_an_old_agent_drops_is_handled(flight: Flight) -> None:
    """With a session folder its files are messages, and the receipts lie in its outbox."""
    inbox = flight.folder / "S1" / "bus" / "inbox" / "builder"
    inbox.mkdir(parents=True)
    (inbox / "old-1.md").write_text("---\nid: old-1\nfrom: lead\nto: builder\nintent: fix\n---\n\nfix it\n")
    assert flight.fly("echo it works", bus=str(flight.folder / "S1")) == ["done"]
    receipt = flight.folder / "S1" / "bus" / "outbox" / "old-1.builder.md"
    assert receipt.read_text().endswith("it works")
    assert list(inbox.iterdir()) == []


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _plan(flight: Flight, *tasks: NewTask) -> Tasks:
    with flight.store.changing() as change:
        agents.join(change, "boss", Joining(kind="lead", incarnation="1"))
    plan = Tasks(flight.store, "boss")
    plan.add_all([one._replace(retry_delays=(0.05,)) for one in tasks])
    return plan


def _statuses(plan: Tasks) -> dict[str, str]:
    return {one.task.task_id: str(one.task.status) for one in plan.graph()}


def test_a_plan_is_worked_off(flight: Flight) -> None:
    """Tasks wait for each other, failed runs come again, and a review sends work back to its owner."""
    plan = _plan(
        flight,
        NewTask(task_id="parse", title="write it", owner="builder"),
        NewTask(task_id="test", title="test it", owner="tester", needs=("parse",)),
        NewTask(
            task_id="doc",
            title="describe it",
            owner="builder",
            needs=("parse",),
            review="required",
            reviewers=("tester",),
        ),
        NewTask(task_id="ship", title="ship it", owner="builder", needs=("test", "doc")),
    )
    script = f"""echo "$JOBWIRE_AGENT:$JOBWIRE_TASK" >> order
    case "$JOBWIRE_AGENT:$JOBWIRE_TASK" in
    tester:test) test -e second || {{ touch second; exit 1; }};;
    tester:doc) verdict=approve; test -e seen || verdict='reject --reason shorter'; touch seen
        {sys.executable} -m jobwire.cli.main tasks review $verdict doc;;
    esac"""
    ended = flight.fly(script, agents=["builder", "tester"])
    assert _statuses(plan) == dict.fromkeys(("parse", "test", "doc", "ship"), "completed")
    order = (flight.folder / "order").read_text().split()
    assert Counter(order) == {
        "builder:parse": 1, "tester:test": 2, "builder:doc": 2, "tester:doc": 2, "builder:ship": 1
    }  # fmt: skip
    assert (order[0], order[-1]) == ("builder:parse", "builder:ship")
    assert Counter(ended) == {"done": 7, "again": 1}


def test_a_task_fails_after_its_runs(flight: Flight) -> None:
    """Failed runs count on the task, with its limit; what cannot be executed fails it at once."""
    plan = _plan(flight, NewTask(task_id="hard", title="hard", owner="builder", max_attempts=2))
    assert flight.fly("exit 1") == ["again", "failed"]
    assert _statuses(plan) == {"hard": "failed"}
    assert taking.dead_of(flight.store) == []
    plan = _plan(flight, NewTask(task_id="missing", title="missing", owner="builder"))
    autopilot = flight.autopilot(["no-such-program"])
    autopilot.run()
    assert (autopilot.ended, _statuses(plan)["missing"]) == ({"failed": 1}, "failed")


def test_acceptance_lines_of_a_plan_are_run(flight: Flight) -> None:
    """What a person planned is trusted; a failing line is a failed run."""
    plan = _plan(
        flight, NewTask(task_id="build", title="build", owner="builder", acceptance=("test -e made",))
    )
    script = "test -e tried && touch made; touch tried"
    assert flight.fly(script, verify=True) == ["again", "done"]
    assert _statuses(plan) == {"build": "completed"}


def test_open_work_is_taken_where_asked(flight: Flight) -> None:
    """Tasks and threads without an owner go to who has nothing to do, each to one."""
    plan = _plan(flight, *(NewTask(task_id=f"t{number}", title="open") for number in range(4)))
    flight.send(to=())
    assert flight.fly("true") == []
    script = 'echo "$JOBWIRE_THREAD" >> ran'
    assert flight.fly(script, agents=["builder", "tester"], open_work=True) == ["done"] * 5
    assert set(_statuses(plan).values()) == {"completed"}
    assert set(Counter((flight.folder / "ran").read_text().split()).values()) == {1}


def test_what_could_be_taken_is_what_would_be(flight: Flight) -> None:
    """A dry run names the task that a run handles, and not the answer that it passes over."""
    asked = sending.send(
        flight.store, NewMessage("builder", ("boss",), "question", summary="which?")
    ).thread_id
    sending.send(flight.store, NewMessage("boss", ("builder",), "answer", summary="x", thread_id=asked))
    flight.send()
    shown = open_work(flight.store, ["builder"])
    assert [(agent, message.kind) for agent, message in shown] == [("builder", "task")]
    assert flight.fly("echo ok") == ["done"]
