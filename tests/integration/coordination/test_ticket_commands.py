"""The commands of an agent by its ticket: the same words and the same answers as in the home."""

import json
from pathlib import Path
from typing import Any, Protocol

import pytest

from jobwire.cli.main import main
from jobwire.coordination.remote_agent import RemoteAgent
from jobwire.coordination.tasks.new_task import NewTask
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.registry.layout import HomeLayout
from jobwire.testing.agent_host import AgentHost


class Run(Protocol):
    """Runs a command by the ticket of an agent."""

    def __call__(self, name: str, *words: str, code: int = 0) -> dict[str, Any]:
        """Return what it prints; fails where it ends with another code."""


@pytest.fixture
def run(host: AgentHost, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Give commands by the tickets of lead and builder."""
    monkeypatch.setattr(RemoteAgent, "_by_paho", lambda _self, ticket, _will: host.connect(ticket))
    for name in ("AGENT", "HOME", "TICKET", "DB", "JOB", "LEASE", "INCARNATION"):
        monkeypatch.delenv(f"JOBWIRE_{name}", raising=False)
    tickets = {name: str(host.ticket(name)) for name in ("lead", "builder")}

    def run_it(name: str, *words: str, code: int = 0) -> dict[str, Any]:
        capsys.readouterr()
        found = main([*words, "--ticket", tickets[name], "--json"])
        said = capsys.readouterr()
        assert found == code, said
        answer: dict[str, Any] = json.loads(said.out)
        return answer

    return run_it


def test_each_command_that_a_ticket_allows(run: Run) -> None:
    """Send, fetch, show, take, ack, nack, reply, watch, wait-reply, join, list and leave work by a ticket."""
    assert run("builder", "agent", "join", "--interval", "5")["agent"]["interval_seconds"] == 5
    sent = run("lead", "inbox", "send", "--to", "builder", "--subject", "fix it", "--body", "the parser")
    thread = sent["thread_id"]
    assert run("builder", "inbox", "watch", "--timeout-seconds", "30")["woke"] is True
    assert [one["thread_id"] for one in run("builder", "inbox", "fetch")["threads"]] == [thread]
    assert run("builder", "inbox", "show", "--thread", thread)["messages"][0]["body"] == "the parser"
    taken = run("builder", "inbox", "take", "--lease-seconds", "60")
    message = taken["message"]["message_id"]
    assert (
        run("builder", "inbox", "nack", "--message", message, "--reason", "later")["delivery"]["state"]
        == "queued"
    )
    more = run("lead", "inbox", "send", "--to", "builder", "--subject", "another")["message_id"]
    token = run("builder", "inbox", "take")["token"]
    acked = run("builder", "inbox", "ack", "--message", more, "--token", str(token))
    assert acked["delivery"]["state"] == "done"
    asked = run(
        "builder", "inbox", "send", "--to", "lead", "--thread", thread, "--kind", "question", "--body", "?"
    )
    run("lead", "inbox", "reply", "--thread", thread, "--to", "builder", "--body", "8883")
    words = ("--thread", thread, "--after-event", str(asked["event_id"]), "--timeout-seconds", "30")
    assert run("builder", "inbox", "wait-reply", *words)["message"]["body"] == "8883"
    assert [one["agent_id"] for one in run("lead", "agent", "list")["agents"]] == ["builder"]
    run("builder", "agent", "beat", "--task", "T7")
    run("builder", "agent", "leave")
    assert run("builder", "inbox", "ack", code=30)["error"]["code"] == "invalid_input"
    assert run("builder", "inbox", "export", code=30)["error"]["code"] == "invalid_input"
    assert run("builder", "inbox", "fetch", "--agent", "lead", code=30)["error"]["code"] == "forbidden"


def test_the_store_itself_gets_no_ticket(host: AgentHost) -> None:
    """Whoever speaks with the store's own name sees all: nobody elsewhere does."""
    HomeLayout(host.store.home).make_layout()
    assert main(["agent", "ticket", "jobwire", "--home", host.store.home]) == 30
    assert host.keys.key("jobwire") is None


def test_a_ticket_takes_the_options_of_the_home(run: Run) -> None:
    """Tries, a receipt's words, all up to a number, and words that are no status, as where the home is."""
    sent = run("lead", "inbox", "send", "--to", "builder", "--subject", "fix it")
    assert sent["thread"]["status"] == "pending"
    taken = run("builder", "inbox", "take", "--max-tries", "1")
    held = ("--message", sent["message_id"], "--token", taken["lease_token"])
    assert run("builder", "inbox", "ack", *held, "--summary", "done so")["delivery"]["state"] == "done"
    (thread,) = run("lead", "inbox", "fetch", "--unread")["threads"]
    shown = run("lead", "inbox", "show", "--thread", thread["thread_id"])["messages"]
    assert (shown[-1]["type"], shown[-1]["summary"]) == ("receipt", "done so")
    more = run("lead", "inbox", "send", "--to", "builder", "--subject", "another")
    run("builder", "inbox", "take")
    assert run("builder", "inbox", "ack", "--through", str(more["seq"]))["acked"] == 1
    last = run("lead", "inbox", "send", "--to", "builder", "--subject", "the last one")["message_id"]
    run("builder", "inbox", "take")
    given = run("builder", "inbox", "nack", "--message", last, "--max-tries", "1")
    assert given["delivery"]["state"] == "dead"
    assert run("builder", "inbox", "fetch", "--status", "none", code=30)["error"]["code"] == "invalid_input"


def test_what_concerns_an_agent_is_listed_by_its_ticket(run: Run) -> None:
    """Threads and dead letters are those that it wrote or was written; nothing found is exit 10, as here."""
    assert run("builder", "inbox", "fetch", code=10)["error"]["code"] == "no_match"
    mine = run("lead", "inbox", "send", "--to", "builder", "--subject", "fix it", "--summary", "the parser")
    run("lead", "inbox", "send", "--to", "tester", "--subject", "not for builder")
    listed = run("builder", "inbox", "list")["threads"]
    assert [one["thread_id"] for one in listed] == [mine["thread_id"]]
    assert len(run("lead", "inbox", "list", "--created-by", "lead")["threads"]) == 2
    run("builder", "inbox", "take")
    message = mine["message_id"]
    assert run("builder", "inbox", "dead", "list")["dead"] == []
    run("builder", "inbox", "nack", "--message", message, "--permanent", "--reason", "no such branch")
    for name in ("builder", "lead"):
        (dead,) = run(name, "inbox", "dead", "list")["dead"]
        assert (dead["message"]["message_id"], dead["last_error"]) == (message, "no such branch")
        assert run(name, "inbox", "dead", "show", message)["message"]["message_id"] == message
    for words in (("drop", "--all"), ("redrive", message, "--force"), ("redrive", "--task", "T1"), ("show",)):
        assert run("builder", "inbox", "dead", *words, code=30)["error"]["code"] == "invalid_input"
    (back,) = run("lead", "inbox", "dead", "redrive", message)["deliveries"]
    assert (back["agent_id"], back["state"]) == ("builder", "queued")
    run("builder", "inbox", "take")
    run("builder", "inbox", "nack", "--message", message, "--permanent", "--reason", "no such branch")
    (gone,) = run("builder", "inbox", "dead", "drop", message)["deliveries"]
    assert gone["state"] == "dropped"
    assert run("builder", "inbox", "search", "nowhere", code=10)["error"]["code"] == "no_match"


def test_a_person_reads_the_same_by_a_ticket(
    run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Without --json an answer is a table or a sentence, and never a line of JSON."""
    thread = run("lead", "inbox", "send", "--to", "builder", "--subject", "fix it")["thread_id"]

    def read(*words: str) -> str:
        capsys.readouterr()
        assert main([*words, "--ticket", str(tmp_path / "builder.ticket")]) == 0
        return capsys.readouterr().out

    assert "SUBJECT" in read("inbox", "fetch")
    assert f"thread {thread} is yours until" in read("inbox", "claim", "--thread", thread)
    assert f"thread {thread} is in_progress" in read(
        "inbox", "update", "--thread", thread, "--summary", "half"
    )
    shown = read("inbox", "show", "--thread", thread)
    assert "fix it  [in_progress]" in shown
    assert "half" in shown
    assert "{" not in shown + read("agent", "list") + read("inbox", "dead", "list") + read("inbox", "list")
    taken = read("lock", "acquire", str(tmp_path / "a.py"), "--root", str(tmp_path))
    assert "builder holds a.py until" in taken
    assert "advisory" in (listed := read("lock", "list"))
    assert "{" not in taken + listed


def test_work_is_done_by_a_ticket(run: Run, tmp_path: Path) -> None:
    """Claim, renew, update, ask, be answered, done: the lease lies beside the ticket until the end."""
    thread = run("lead", "inbox", "send", "--to", "builder", "--subject", "fix it")["thread_id"]
    on = ("--thread", thread)
    claimed = run("builder", "inbox", "claim", *on, "--lease-seconds", "60")
    assert claimed["thread"]["status"] == "claimed"
    leases = list(tmp_path.glob("builder.ticket.leases/*"))
    assert [oct(path.stat().st_mode)[-3:] for path in leases] == ["600"]
    assert run("builder", "inbox", "renew", *on)["lease_token"] == claimed["lease_token"]
    assert run("builder", "inbox", "update", *on, "--summary", "half")["thread"]["status"] == "in_progress"
    asked = run("builder", "inbox", "update", *on, "--status", "blocked", "--summary", "which port?")
    assert asked["thread"]["status"] == "blocked"
    assert run("lead", "inbox", "reply", *on, "--summary", "8883")["request"]
    words = ("--after-event", str(asked["event_id"]), "--timeout-seconds", "30")
    assert run("builder", "inbox", "wait-reply", *on, *words)["message"]["summary"] == "8883"
    assert run("lead", "inbox", "done", *on, "--summary", "mine", code=20)["error"]["code"] == "lease_lost"
    done = run("builder", "inbox", "done", *on, "--summary", "it works", "--artifact", "a.diff:diff")
    assert (done["command"], done["thread"]["status"]) == ("done", "done")
    assert not any(path.exists() for path in leases)
    assert run("lead", "inbox", "search", "works")["messages"][0]["kind"] == "result"
    other = run("lead", "inbox", "send", "--to", "builder", "--subject", "more")["thread_id"]
    run("builder", "inbox", "claim", "--thread", other)
    assert run("lead", "inbox", "cancel", "--thread", other)["thread"]["status"] == "cancelled"
    fail = ("inbox", "fail", "--thread", other, "--summary", "late")
    assert run("builder", *fail, code=20)["error"]["code"] == "already_terminal"


def test_locks_are_held_by_a_ticket(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths mean what they are in the repository on the agent's own host."""
    (tmp_path / "clone" / ".git").mkdir(parents=True)
    (tmp_path / "clone" / "src").mkdir()
    monkeypatch.chdir(tmp_path / "clone" / "src")
    lock = run("builder", "lock", "acquire", "app.py", "--ttl", "60")["locks"][0]
    assert (lock["path"], lock["agent"]) == ("src/app.py", "builder")
    refused = run("lead", "lock", "check", "../src/app.py", code=20)["error"]
    assert (refused["code"], refused["holder"], refused["path"]) == ("locked", "builder", "src/app.py")
    assert run("lead", "lock", "wait", "app.py", "--timeout-seconds", "0.01", code=10)["woke"] is False
    waited = run("lead", "lock", "acquire", "app.py", "--wait", "0.01", code=10)
    assert waited["error"]["code"] == "timeout"
    held = run("lead", "lock", "list")
    assert ([one["path"] for one in held["locks"]], held["waiting"]) == (["src/app.py"], [])
    assert run("builder", "lock", "renew", "--all")["locks"][0]["token"] == lock["token"]
    assert run("lead", "lock", "acquire", "../../other", code=30)["error"]["code"] == "invalid_input"
    assert len(run("builder", "lock", "release", "--all")["locks"]) == 1
    assert run("lead", "lock", "wait", "app.py", "--timeout-seconds", "30")["woke"] is True
    assert run("lead", "lock", "acquire", "app.py", "--wait", "30")["token"] > lock["token"]
    assert run("lead", "lock", "deadlocks")["deadlocks"] == []
    assert "git diff" in run("lead", "lock", "hook")["hook"]


def test_a_board_is_held_by_tickets(run: Run, tmp_path: Path) -> None:
    """Members assess and vote from elsewhere; the resolution is the same for all."""
    (tmp_path / "plan.md").write_text("ship it")
    words = ("--checkpoint", "PRE_LAUNCH", "--proposal", str(tmp_path / "plan.md"), "--quick")
    opened = run("lead", "board", "open", *words, "--member", "lead", "--member", "builder")
    board = opened["board_id"]
    assert [one["board_id"] for one in run("builder", "board", "list")["boards"]] == [board]
    assert run("lead", "board", "resolve", board, code=20)["error"]["code"] == "board_phase"
    for name in ("lead", "builder"):
        run(name, "board", "assess", board, "--verdict", "APPROVE", "--score", "8")
    assert run("builder", "board", "wait", board, "--timeout-seconds", "30")["woke"] is True
    assert run("lead", "board", "resolve", board)["resolution"]["verdict"] == "APPROVED"
    assert [one["member"] for one in run("lead", "board", "messages", board)["messages"]] == [
        "lead",
        "builder",
    ]
    late = run("lead", "board", "assess", board, "--verdict", "REJECT", code=20)
    assert late["error"]["code"] == "board_phase"


def test_a_task_is_worked_off_by_a_ticket(run: Run, host: AgentHost) -> None:
    """List, claim, update, complete, fail, review: the lease lies beside the ticket until the end."""
    plan = Tasks(host.store, "boss", environ={})
    plan.add(NewTask("parse", "T1", owner="builder", review="required", reviewers=("lead",)))
    plan.add(NewTask("measure", "T2", owner="builder"))
    assert [one["task_id"] for one in run("builder", "tasks", "list")["tasks"]] == ["T1", "T2"]
    first = run("builder", "tasks", "claim")
    assert (first["task"]["task_id"], first["task"]["worker"]) == ("T1", "builder")
    on = ("--thread", first["thread_id"])
    assert run("builder", "inbox", "update", *on, "--summary", "half")["thread"]["status"] == "in_progress"
    ended = run("builder", "tasks", "complete", "T1", "--summary", "it parses", "--branch", "parser")
    assert (ended["task"]["status"], ended["task"]["branch"]) == ("in_review", "parser")
    back = run("lead", "tasks", "review", "reject", "T1", "--reason", "no test")
    assert (back["task"]["status"], back["task"]["reason"]) == ("ready", "no test")
    assert run("builder", "tasks", "claim", "T2")["task"]["task_id"] == "T2"
    failed = run("builder", "tasks", "fail", "T2", "--summary", "no clock", "--permanent")
    assert failed["task"]["status"] == "failed"
    assert run("builder", "tasks", "claim")["task"]["task_id"] == "T1"
    assert run("builder", "tasks", "claim", code=10)["error"]["code"] == "no_match"
    assert len(run("builder", "tasks", "show", "T1")["runs"]) == 2
    for words in (("add", "--title", "x"), ("cancel", "T1"), ("retry", "T2"), ("merge", "T1"), ("graph",)):
        assert run("builder", "tasks", *words, code=30)["error"]["code"] == "invalid_input"


def test_a_person_reads_tasks_by_a_ticket_as_at_home(
    run: Run, host: AgentHost, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The same table, the same page, the same sentences."""
    assert run("lead", "tasks", "list")["tasks"] == []
    plan = Tasks(host.store, "boss", environ={})
    plan.add(NewTask("parse", "T1", owner="builder", text="all samples"))
    HomeLayout(host.store.home).make_layout()
    away = ("--ticket", str(tmp_path / "builder.ticket"))
    home = ("--home", host.store.home)

    def read(*words: str) -> str:
        capsys.readouterr()
        assert main([*words]) == 0
        return capsys.readouterr().out

    assert read("tasks", "list", *away) == read("tasks", "list", *home)
    assert "task T1 is yours until" in read("tasks", "claim", *away)
    assert read("tasks", "show", "T1", *away) == read("tasks", "show", "T1", *home)
    ended = read("tasks", "fail", "T1", "--summary", "no disk", *away)
    assert "task T1 is tried again after" in ended


@pytest.mark.parametrize("place", ["home", "ticket"])
def test_a_question_of_the_work_is_asked_and_answered(
    run: Run, host: AgentHost, tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    """At home and by a ticket: asked once under its id, open when the time is up, and its answer is said."""
    HomeLayout(host.store.home).make_layout()
    thread = run("lead", "inbox", "send", "--to", "builder", "--subject", "fix it")["thread_id"]
    where = {
        "home": ("--home", host.store.home, "--agent", "builder"),
        "ticket": ("--ticket", str(tmp_path / "builder.ticket")),
    }[place]

    def say(*words: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        code = main([*words, "--thread", thread, "--json", *where])
        return code, json.loads(capsys.readouterr().out)

    assert say("inbox", "claim")[0] == 0
    question = ("inbox", "ask", "Push to main?", "--choice", "yes", "--choice", "no", "--id", "q1")
    code, late = say(*question, "--timeout-seconds", "0")
    assert (code, late["error"]["code"], late["woke"]) == (10, "timeout", False)
    answered = run("lead", "inbox", "reply", "--thread", thread, "--summary", "yes")
    assert answered["request"] is not None
    code, found = say(*question, "--timeout-seconds", "60")
    assert (code, found["answer"], found["by"], found["woke"]) == (0, "yes", "lead", True)
    asked = run("lead", "inbox", "show", "--thread", thread)["messages"]
    assert [one["kind"] for one in asked] == ["task", "question", "answer"]
