"""Hooks in a job of a real home: events, requests, policy, locks and messages, failing open."""

import io
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from jobwire.coordination.locks.changes import LockRequest
from jobwire.coordination.locks.file_locks import Locks
from jobwire.coordination.locks.guards import guard_of
from jobwire.coordination.locks.targets import root_of
from jobwire.coordination.message import NewMessage
from jobwire.coordination.reading import ways_in
from jobwire.coordination.sending import send
from jobwire.coordination.store import CoordinationStore
from jobwire.hooks.main import hook
from jobwire.jobs.record import JobRecord
from jobwire.jobs.requests import Answer, Request, open_requests
from jobwire.registry.queue import JobQueue
from jobwire.registry.requests import give_answer
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.testing.calls import serving_hooks
from jobwire.testing.homes import new_home
from jobwire.testing.waiting import wait_for

CONVERSATION = "c-1"
COMMAND = {"command": "touch hello.txt", "description": "Make a file"}


class Agent:
    """An agent in a job: what its hooks are given, and what they answer."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.home = str(new_home(folder / ".hermes"))
        self.queue = JobQueue(RecordStore(self.home), warn=print)
        self.job_id = self.queue.register(JobSpec(title="try")).record.job_id
        self.environ = {
            "HOME": str(folder / "user"),
            "JOBWIRE_HOME": self.home,
            "JOBWIRE_JOB": self.job_id,
            "JOBWIRE_AGENT": "builder",
        }
        self._patch = patch
        self._capsys = capsys
        self.said = ""

    def own_settings(self, text: str) -> None:
        """Write the user's settings."""
        path = self.folder / "user" / ".config" / "jobwire" / "jobwire.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def hook(self, event: str, agent: str = "claude", **fields: Any) -> dict[str, Any]:
        """Run a hook, and return its answer; {} for none."""
        body = {"hook_event_name": event, "session_id": CONVERSATION, "cwd": str(self.folder), **fields}
        return self.raw(json.dumps(body).encode(), agent)

    def raw(
        self, given: bytes, agent: str = "claude", environ: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Run a hook on these bytes; it never fails."""
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        self._capsys.readouterr()
        assert hook(agent, [], environ=self.environ if environ is None else environ) == 0
        printed = self._capsys.readouterr()
        self.said = printed.err
        return json.loads(printed.out) if printed.out else {}

    def tool(self, event: str, **fields: Any) -> dict[str, Any]:
        """Run a hook about the usual command."""
        return self.hook(event, **{"tool_name": "Bash", "tool_input": COMMAND, **fields})

    @property
    def record(self) -> JobRecord:
        """Return the job."""
        return self.queue.store.get(self.job_id)

    def events(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Return what was said: event, detail, data."""
        lines = Path(self.queue.store.log_dir(self.job_id), "events.ndjson").read_text().splitlines()
        found = [line["event"] for line in map(json.loads, lines) if line["kind"] == "event"]
        return [(one["event"], one["detail"], one["data"]) for one in found]


@pytest.fixture(params=["by itself", "by the registry process"])
def agent(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Agent]:
    """Give an agent that has begun, whose hooks do their work by themselves, or have it done."""
    made = Agent(tmp_path, monkeypatch, capsys)
    if request.param == "by itself":
        made.hook("SessionStart", source="startup")
        yield made
        return
    with serving_hooks(Path(made.home)) as service:
        made.hook("SessionStart", source="startup")
        assert service.calls == 1
        yield made


class Waiting:
    """A hook that waits for a person in a thread of its own."""

    def __init__(self, run: Callable[[], dict[str, Any]]) -> None:
        self.answer: dict[str, Any] | None = None
        self._run = run
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        self.answer = self._run()

    def over(self) -> dict[str, Any]:
        """Return what it answered."""
        self._thread.join(60)
        assert self.answer is not None
        return self.answer


def asked(agent: Agent, count: int = 1) -> list[Request]:
    """Wait until so many requests are open, and return them."""
    wait_for(lambda: len(open_requests(agent.record.requests)) == count, what="requests", deadline_seconds=60)
    return open_requests(agent.record.requests)


def decision(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the decision in a hook's answer."""
    found: dict[str, Any] = answer["hookSpecificOutput"]["decision"]
    return found


def answer_to(agent: Agent, request: Request, text: str) -> None:
    """Answer as a person does."""
    give_answer(agent.queue, request.id, Answer(text, "somebody", "test"))


def test_a_secret_at_the_end_of_what_fits_is_masked(agent: Agent) -> None:
    """It is masked before the text is cut: half of one would be known by nobody."""
    agent.hook("Stop", stop_hook_active=True, last_assistant_message=f"completed: {'x ' * 505}ghp_{'a' * 36}")
    assert "ghp_" not in agent.record.detail
    assert agent.record.detail.startswith("x x")


def test_a_person_lets_the_tool_run(agent: Agent) -> None:
    """The request has tool and preview; its answer is the hook's decision, and it is closed as applied."""
    waiting = Waiting(lambda: agent.tool("PermissionRequest"))
    (request,) = asked(agent)
    assert (request.kind, request.tool, request.preview) == ("permission", "Bash", "touch hello.txt")
    answer_to(agent, request, "allow")
    assert decision(waiting.over()) == {"behavior": "allow"}
    assert [one.state for one in agent.record.requests] == ["applied"]
    assert not agent.record.attention


def test_a_denial_carries_the_persons_words(agent: Agent) -> None:
    """`deny: words`: the words are for the agent."""
    waiting = Waiting(lambda: agent.tool("PermissionRequest"))
    answer_to(agent, asked(agent)[0], "deny: use the copy")
    assert decision(waiting.over()) == {"behavior": "deny", "message": "use the copy"}


def test_what_was_answered_at_the_pane_is_closed_by_the_next_sign(agent: Agent) -> None:
    """The tool ran: the hook that waits answers nothing, and nobody can answer any more."""
    waiting = Waiting(lambda: agent.tool("PermissionRequest"))
    (request,) = asked(agent)
    environ = dict(agent.environ)
    body = {
        "hook_event_name": "PostToolUse",
        "session_id": CONVERSATION,
        "tool_name": "Bash",
        "tool_input": COMMAND,
    }
    from jobwire.hooks.claude import read  # noqa: PLC0415 - stdin is the other hook's
    from jobwire.hooks.desk import open_desk  # noqa: PLC0415 - as above
    from jobwire.hooks.handling import handle  # noqa: PLC0415 - as above
    from jobwire.hooks.kinds import kind_of  # noqa: PLC0415 - as above

    said, desk = read(body), open_desk(kind_of("claude"), environ)
    assert said is not None
    assert desk is not None
    handle(desk, said)
    assert waiting.over() == {}
    assert agent.record.requests[0].state == "resolved"
    assert request.id == agent.record.requests[0].id


def test_another_tool_closes_no_request(agent: Agent) -> None:
    """Tools run in parallel: what one of them did says nothing about another's question."""
    waiting = Waiting(lambda: agent.tool("PermissionRequest"))
    (request,) = asked(agent)
    from jobwire.hooks.claude import read  # noqa: PLC0415 - stdin is the other hook's
    from jobwire.hooks.desk import open_desk  # noqa: PLC0415 - as above
    from jobwire.hooks.handling import handle  # noqa: PLC0415 - as above
    from jobwire.hooks.kinds import kind_of  # noqa: PLC0415 - as above

    other = {
        "hook_event_name": "PostToolUse",
        "session_id": CONVERSATION,
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
    }
    said, desk = read(other), open_desk(kind_of("claude"), agent.environ)
    assert said is not None
    assert desk is not None
    handle(desk, said)
    assert [one.id for one in asked(agent)] == [request.id]
    answer_to(agent, request, "allow")
    assert decision(waiting.over()) == {"behavior": "allow"}


def test_the_users_policy_answers_unasked_and_says_so(agent: Agent) -> None:
    """Allowed and denied by rule, each an event that names the rule; nobody is asked."""
    agent.own_settings('[agents.policy]\nallow = ["Bash(touch *)"]\ndeny = ["Bash(rm *)"]\n')
    assert decision(agent.tool("PermissionRequest")) == {"behavior": "allow"}
    denied = agent.hook("PreToolUse", tool_name="Bash", tool_input={"command": "cd a && rm x"})
    assert denied["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert agent.hook("PreToolUse", tool_name="Bash", tool_input={"command": "ls"}) == {}
    rules = [data["policy"]["rule"] for _, _, data in agent.events() if "policy" in data]
    assert rules == ["Bash(touch *)", "Bash(rm *)"]
    assert agent.record.requests == ()


def test_a_home_grants_nothing(agent: Agent) -> None:
    """[agents.policy] in a home's file is an error: the hook fails open, and nothing is allowed."""
    Path(agent.home, "jobwire.toml").write_text('[agents.policy]\nallow = ["*"]\n')
    waiting = Waiting(lambda: agent.tool("PermissionRequest"))
    answer_to(agent, asked(agent)[0], "deny")
    assert decision(waiting.over())["behavior"] == "deny"


def test_a_turn_that_ends_is_asked_for_a_verdict_once(agent: Agent) -> None:
    """Asked, then its last line is the job's last word."""
    first = agent.hook("Stop", stop_hook_active=False, last_assistant_message="Done.", background_tasks=[])
    assert "completed:" in first["hookSpecificOutput"]["additionalContext"]
    assert not agent.record.terminal
    again = agent.hook("Stop", stop_hook_active=True, last_assistant_message="Yes.\n\ncompleted: all green")
    assert again == {}
    assert (agent.record.status, agent.record.detail) == ("completed", "all green")
    assert agent.tool("PostToolUse") == {}


def test_a_turn_without_a_verdict_goes_by_policy(agent: Agent) -> None:
    """The user takes it as complete; background tasks hold it back."""
    agent.own_settings('[agents.policy]\nturn_end = "complete"\n')
    busy = agent.hook("Stop", stop_hook_active=True, last_assistant_message="x", background_tasks=[{"id": 1}])
    assert busy == {}
    assert not agent.record.terminal
    agent.hook("Stop", stop_hook_active=True, last_assistant_message="Made it.")
    assert (agent.record.status, agent.record.detail) == ("completed", "Made it.")


def test_codex_is_not_held(agent: Agent) -> None:
    """Its hook holds the pane: it is said that it waits there, and the next sign takes that back."""
    assert agent.hook("PermissionRequest", "codex", tool_name="Bash", tool_input=COMMAND) == {}
    assert agent.record.attention
    agent.hook("PostToolUse", "codex", tool_name="Bash", tool_input=COMMAND)
    assert not agent.record.attention


def test_an_edit_of_what_another_holds_is_denied(agent: Agent) -> None:
    """With the holder and the way to wait; one's own file and others are free."""
    store = CoordinationStore(agent.home)
    root_of(store, "default", wanted=str(agent.folder), default=str(agent.folder))
    locks = Locks(store)
    locks.acquire(LockRequest("other", ("a.py",)))
    locks.acquire(LockRequest("builder", ("b.py",)))
    denied = agent.hook("PreToolUse", tool_name="Edit", tool_input={"file_path": str(agent.folder / "a.py")})
    own = denied["hookSpecificOutput"]
    assert own["permissionDecision"] == "deny"
    assert "held by other" in own["permissionDecisionReason"]
    assert "jobwire lock wait a.py" in own["permissionDecisionReason"]
    assert agent.hook("PreToolUse", tool_name="Edit", tool_input={"file_path": "b.py"}) == {}
    assert agent.hook("PreToolUse", tool_name="Write", tool_input={"file_path": "/elsewhere/a.py"}) == {}
    store.close()


def test_messages_go_in_and_are_done_with_the_next_hook(agent: Agent) -> None:
    """An interrupt after a tool, the others at the end of the turn; tasks wait to be claimed."""
    store = CoordinationStore(agent.home)
    for kind, message_class, summary in (
        ("event", "interrupt", "stop: wrong branch"),
        ("event", "turn", "by the way"),
        ("task", "turn", "another job"),
    ):
        send(store, NewMessage("lead", ("builder",), kind=kind, message_class=message_class, summary=summary))
    told = agent.tool("PostToolUse")["hookSpecificOutput"]["additionalContext"]
    assert "stop: wrong branch" in told
    assert "by the way" not in told
    assert [row[3] for row in store.rows("deliveries_of", {"seq": 1})] == ["leased"]
    assert agent.tool("PostToolUse") == {}
    assert [row[3] for row in store.rows("deliveries_of", {"seq": 1})] == ["done"]
    thread = str(store.rows("message_heads", {"seq": 1, "most": 1})[0][2])
    (way,) = next(iter(ways_in(store, thread).values()))
    assert (way["agent_id"], way["way"], way["state"], way["event"]) == (
        "builder",
        "hook",
        "done",
        "PostToolUse",
    )
    ended = agent.hook("Stop", stop_hook_active=False, last_assistant_message="Done.")
    assert "by the way" in ended["hookSpecificOutput"]["additionalContext"]
    assert [row[3] for row in store.rows("deliveries_of", {"seq": 3})] == ["queued"]
    store.close()


def test_the_locks_of_an_agent_with_our_hooks_are_guarded(agent: Agent) -> None:
    """From its first hook to the end of its job; those of an agent without hooks are advisory."""
    store = CoordinationStore(agent.home)
    send(store, NewMessage("lead", ("builder",), summary="hello"))
    assert guard_of(agent.home, "builder") == "advisory"
    agent.tool("PostToolUse")
    assert guard_of(agent.home, "builder") == "guarded"
    assert guard_of(agent.home, "reviewer") == "advisory"
    agent.queue.cancel(agent.job_id)
    assert guard_of(agent.home, "builder") == "advisory"
    store.close()


def test_a_subagent_is_not_the_job(agent: Agent) -> None:
    """Its beginning and end are none of the job's."""
    before = agent.record.last_seq
    for event in ("SessionStart", "Stop", "SessionEnd", "UserPromptSubmit"):
        assert agent.hook(event, agent_id="sub-1", stop_hook_active=False) == {}
    assert agent.record.last_seq == before


def test_secrets_and_escapes_reach_nobody(agent: Agent) -> None:
    """A command with a token and control characters is masked and disarmed wherever it is shown."""
    command = "curl -H 'Authorization: Bearer sk-ant-REDACTED' \x1b[2J\u202e x"
    waiting = Waiting(
        lambda: agent.hook("PermissionRequest", tool_name="Bash", tool_input={"command": command})
    )
    (request,) = asked(agent)
    shown = f"{request.text} {request.preview}"
    assert "sk-ant" not in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    answer_to(agent, request, "deny")
    waiting.over()


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"{",
        b'{"hook_event_name": "PermissionRequest"',
        b'{"hook_event_name": "FutureEvent", "x": 1}',
        b'{"hook_event_name": ["Stop"]}',
        b'{"hook_event_name": "PostToolUse", "tool_input": 7, "tool_name": {}}',
        b"\xff" * 100,
        b'{"hook_event_name": "PostToolUse", "tool_response": "' + b"x" * (10 * 1024 * 1024) + b'"}',
    ],
    ids=["empty", "brace", "truncated", "future", "kinds", "fields", "bytes", "10 MB"],
)
def test_bad_input_never_stops_an_agent(agent: Agent, given: bytes) -> None:
    """Exit code 0 and no answer."""
    assert agent.raw(given) == {}


def test_outside_of_a_job_and_without_a_home_nothing_is_done(agent: Agent, tmp_path: Path) -> None:
    """No job, a job that is not there, a home that is gone: the agent goes its own way."""
    given = json.dumps({"hook_event_name": "PermissionRequest", "tool_name": "Bash"}).encode()
    assert agent.raw(given, environ={"HOME": str(tmp_path)}) == {}
    assert agent.raw(given, environ={**agent.environ, "JOBWIRE_JOB": "0badcafe"}) == {}
    assert agent.raw(given, environ={**agent.environ, "JOBWIRE_HOME": str(tmp_path / "gone")}) == {}
    assert agent.raw(given, environ={**agent.environ, "JOBWIRE_JOB": "../etc"}) == {}


def test_what_was_used_is_said_once(agent: Agent) -> None:
    """Tokens of the transcript since the last turn, each message once."""
    path = agent.folder / "transcript.jsonl"
    usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 3}
    line = json.dumps({"message": {"id": "m1", "role": "assistant", "model": "opus", "usage": usage}})
    path.write_text(f"{line}\n{line}\nnot json\n")
    agent.hook("Stop", stop_hook_active=False, transcript_path=str(path))
    agent.hook("Stop", stop_hook_active=False, transcript_path=str(path))
    used = [data for _, _, data in agent.events() if "tokens_in" in data]
    assert [(one["tokens_in"], one["tokens_out"], one["model"]) for one in used] == [(15, 3, "opus")]


def test_more_rules_than_are_looked_at_are_refused(agent: Agent) -> None:
    """The question goes to the pane, and a line says why: no rule is silently left out."""
    rules = ", ".join(f'"Tool{number}"' for number in range(257))
    agent.own_settings(f"[agents.policy]\nallow = [{rules}]\n")
    assert agent.tool("PermissionRequest") == {}
    assert "at most 256 rules" in agent.said
