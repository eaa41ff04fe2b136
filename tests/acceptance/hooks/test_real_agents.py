"""The real programs of agents do a scripted job: no word of ours in their prompt, their hooks report."""

from pathlib import Path

import pytest

from jobwire.coordination.message import NewMessage
from jobwire.coordination.reading import message_of, ways_in
from jobwire.coordination.sending import send
from jobwire.coordination.store import CoordinationStore
from jobwire.hooks.scripted_agents import claude_environment, codex_environment, opencode_environment
from jobwire.hooks.scripted_model import Calls, Fails, Says, ScriptedModel, Turn
from jobwire.testing.agent_programs import require_agent
from jobwire.testing.delegated_agent import DEADLINE, PROMPT, Delegated
from jobwire.testing.run_command import newest_record
from jobwire.testing.waiting import wait_for

# Each starts a program of 240 MB.
pytestmark = [pytest.mark.alone, pytest.mark.timeout(900)]


@pytest.fixture
def at_work(tmux_server: str, tmp_path: Path) -> Delegated:
    """Return a place for an agent."""
    return Delegated(tmux_server, tmp_path)


def test_claude_asks_is_answered_from_elsewhere_and_says_how_it_went(at_work: Delegated) -> None:
    """Its question is answered, it is asked for a verdict, and its last line is the job's."""
    program = require_agent("claude")
    store = CoordinationStore(str(at_work.home))
    script: list[Turn] = [
        Calls("Bash", {"command": "touch made.txt", "description": "Make a file"}),
        Says("I made it."),
        Says("I looked again.\n\ncompleted: made.txt is there"),
    ]
    with ScriptedModel(*script) as model:
        at_work.start("claude", program, claude_environment(at_work.user, at_work.work, model.url))
        asked = at_work.request()
        assert (asked.kind, asked.tool, asked.preview) == ("permission", "Bash", "touch made.txt")
        # Sent while it waits: it is told after the tool, in the middle of its turn.
        told = NewMessage(
            "lead", ("builder",), kind="event", message_class="interrupt", summary="mind the gap"
        )
        posted = send(store, told)
        at_work.answer("allow")
        assert at_work.ends() == ("completed", "made.txt is there")
        assert model.said("mind the gap")
        assert "jobwire" not in str(model.requests[0]["messages"][0])
    assert (at_work.work / "made.txt").exists()
    seq = message_of(store, posted.message_id).seq
    assert [row[3] for row in store.rows("deliveries_of", {"seq": seq})] == ["done"]
    store.close()


def test_what_is_answered_at_claudes_pane_is_closed_elsewhere(at_work: Delegated) -> None:
    """Allowed there: closed when the tool has run. Denied there, which no hook tells: closed all the same."""
    program = require_agent("claude")
    script: list[Turn] = [
        Calls("Bash", {"command": "touch first.txt", "description": "Make the first"}),
        Calls("Bash", {"command": "touch second.txt", "description": "Make the second"}),
    ]
    with ScriptedModel(*script) as model:
        at_work.start("claude", program, claude_environment(at_work.user, at_work.work, model.url))
        first = at_work.request()
        at_work.shows("Do you want to proceed?")
        at_work.press("Enter")
        wait_for(
            lambda: at_work.request().id != first.id, what="the second request", deadline_seconds=DEADLINE
        )
        at_work.shows("touch second.txt")
        at_work.press("Escape")

        def states() -> list[str]:
            return [str(one.state) for one in newest_record(at_work.home).requests if one.named]

        wait_for(lambda: states() == ["resolved", "resolved"], what="both closed", deadline_seconds=DEADLINE)
    assert (at_work.work / "first.txt").exists()
    assert not (at_work.work / "second.txt").exists()


def touching(path: str) -> Calls:
    """Let Codex ask for a command that its sandbox does not let run."""
    call = {"cmd": f"touch {path}", "sandbox_permissions": "require_escalated", "justification": "Make it?"}
    return Calls("exec_command", call)


def test_codex_is_answered_remotely_or_at_its_pane(at_work: Delegated) -> None:
    """With --approve-remotely: what is asked stands at both, and whoever answers first settles it."""
    program = require_agent("codex")
    script: list[Turn] = [
        touching("first.txt"),
        touching("second.txt"),
        touching("third.txt"),
        Says("I made them."),
        Says("error: there was no need"),
    ]
    with ScriptedModel(*script) as model:
        environ = codex_environment(at_work.user, at_work.work, model.url)
        at_work.start("codex", program, environ, "--approve-remotely")
        first = at_work.request()
        assert (first.kind, first.tool, first.preview) == ("permission", "Bash", "touch first.txt")
        at_work.shows("Would you like to run")
        at_work.answer("allow")
        second = at_work.next_request(first)
        at_work.shows("$ touch second.txt")
        at_work.press_while("$ touch second.txt", "y")
        at_work.next_request(second)
        at_work.answer("deny: two are enough")
        assert at_work.ends() == ("error", "there was no need")
        assert model.said("two are enough")
        requests = [one for one in newest_record(at_work.home).requests if one.named]
        assert [str(one.state) for one in requests] == ["applied", "resolved", "applied"]
    made = [path.name for path in sorted(at_work.work.glob("*.txt"))]
    assert made == ["first.txt", "second.txt"]


def test_a_codex_without_a_server_waits_in_its_hook(at_work: Delegated) -> None:
    """An older one is answered from elsewhere all the same, though not at its pane."""
    program = require_agent("codex")
    older = at_work.work.parent / "codex"
    older.write_text(f'#!/bin/sh\ncase "$*" in *app-server*) exit 2;; esac\nexec {program} "$@"\n')
    older.chmod(0o700)
    script: list[Turn] = [touching("made.txt"), Says("I made it."), Says("completed: it is there")]
    with ScriptedModel(*script) as model:
        environ = codex_environment(at_work.user, at_work.work, model.url)
        at_work.start("codex", older, environ, "--approve-remotely")
        assert at_work.request().preview == "touch made.txt"
        at_work.answer("allow")
        assert at_work.ends() == ("completed", "it is there")
    assert (at_work.work / "made.txt").exists()


def test_opencode_asks_is_answered_from_elsewhere_and_says_how_it_went(at_work: Delegated) -> None:
    """Its plugin reports, asks, carries the answer out, hands a message over, and asks for a verdict."""
    program = require_agent("opencode")
    store = CoordinationStore(str(at_work.home))
    script: list[Turn] = [
        Calls("bash", {"command": "touch made.txt", "description": "Make a file"}),
        Says("I made it."),
        Says("I looked again.\n\ncompleted: made.txt is there"),
    ]
    with ScriptedModel(*script) as model:
        environ = opencode_environment(at_work.user, at_work.work, model.url)
        at_work.start("opencode", program, environ, prompt=("--prompt", PROMPT))
        asked = at_work.request()
        assert (asked.kind, asked.tool, asked.preview) == ("permission", "bash", "touch made.txt")
        told = NewMessage(
            "lead", ("builder",), kind="event", message_class="interrupt", summary="mind the gap"
        )
        posted = send(store, told)
        at_work.answer("allow")
        assert at_work.ends() == ("completed", "made.txt is there")
        assert model.said("mind the gap")
    assert (at_work.work / "made.txt").exists()
    seq = message_of(store, posted.message_id).seq
    assert [row[3] for row in store.rows("deliveries_of", {"seq": seq})] == ["done"]
    store.close()


def test_codex_goes_on_after_errors_of_its_models_service(at_work: Delegated) -> None:
    """Its own tries are over: it is told to go on by policy, and the job comes to its end."""
    program = require_agent("codex")
    own = at_work.user / ".config" / "jobwire" / "jobwire.toml"
    own.parent.mkdir(parents=True)
    own.write_text("[agents.policy]\nretry_seconds = 1\n")
    # Its settings here: each request twice, each stream twice.
    with ScriptedModel(*[Fails(500)] * 4, Says("I did it."), Says("completed: in the end")) as model:
        environ = codex_environment(at_work.user, at_work.work, model.url)
        at_work.start("codex", program, environ, "--approve-remotely")
        assert at_work.ends() == ("completed", "in the end")
        asked = [one for one in newest_record(at_work.home).requests if one.kind == "error"]
        assert [one.text[-8:] for one in asked] == ["(1 of 3)"]
        assert model.said("go on with the work")


def test_claude_goes_on_after_errors_of_its_models_service(at_work: Delegated) -> None:
    """529, 500 and 429: each is said and tried again by policy, and the job comes to its end."""
    program = require_agent("claude")
    own = at_work.user / ".config" / "jobwire" / "jobwire.toml"
    own.parent.mkdir(parents=True)
    own.write_text("[agents.policy]\nretry_seconds = 1\n")
    failing = [Fails(529), Fails(500, "api_error"), Fails(429, "rate_limit_error")]
    with ScriptedModel(*failing, Says("completed: in the end")) as model:
        environ = claude_environment(at_work.user, at_work.work, model.url)
        # It tries each request again by itself first, for minutes.
        at_work.start("claude", program, {**environ, "CLAUDE_CODE_MAX_RETRIES": "0"})
        assert at_work.ends() == ("completed", "in the end")
        asked = [one for one in newest_record(at_work.home).requests if one.kind == "error"]
        assert [one.text[-8:] for one in asked] == ["(1 of 3)", "(2 of 3)", "(3 of 3)"]
        assert model.said("go on with the work")


@pytest.mark.parametrize("agent", ["claude", "codex", "opencode"])
def test_an_idle_agent_is_woken_by_a_message(at_work: Delegated, agent: str) -> None:
    """Its job is done and nobody types: the message reaches its model, and its next hook confirms it."""
    program = require_agent(agent)
    store = CoordinationStore(str(at_work.home))
    with ScriptedModel(Says("I did it."), Says("completed: it is done"), Says("I will.")) as model:
        if agent == "claude":
            at_work.start(agent, program, claude_environment(at_work.user, at_work.work, model.url))
        elif agent == "codex":
            environ = codex_environment(at_work.user, at_work.work, model.url)
            at_work.start(agent, program, environ, "--approve-remotely")
        else:
            environ = opencode_environment(at_work.user, at_work.work, model.url)
            at_work.start(agent, program, environ, prompt=("--prompt", PROMPT))
        assert at_work.ends() == ("completed", "it is done")
        job_id = newest_record(at_work.home).job_id
        wait_for(
            (at_work.home / "logs" / job_id / "idle").exists, what="who waits", deadline_seconds=DEADLINE
        )
        sent = send(store, NewMessage("lead", ("builder",), summary="mind the gap")).message_id
        thread_id = message_of(store, sent).thread_id

        def ways() -> list[tuple[object, object]]:
            return [(one["way"], one["state"]) for one in ways_in(store, thread_id).get(sent, [])]

        wait_for(lambda: ways() == [("wake", "done")], what="the message done", deadline_seconds=DEADLINE)
        wait_for(lambda: model.said("mind the gap"), what="its model told", deadline_seconds=DEADLINE)
    store.close()


def test_opencode_goes_on_with_a_denials_words_and_an_escape_is_no_end_of_its_turn(
    at_work: Delegated,
) -> None:
    """Denied, it does it another way in the same turn; interrupted at its pane, it is asked nothing."""
    program = require_agent("opencode")
    script: list[Turn] = [
        Calls("bash", {"command": "touch made.txt", "description": "Make a file"}),
        Says("I use the copy."),
        Says("too late", delay_seconds=600.0),
    ]
    with ScriptedModel(*script) as model:
        environ = opencode_environment(at_work.user, at_work.work, model.url)
        at_work.start("opencode", program, environ, prompt=("--prompt", PROMPT))
        at_work.request()
        at_work.answer("deny: use the copy of it")
        wait_for(lambda: model.left == 0, what="the turn after it was asked", deadline_seconds=DEADLINE)
        assert model.said("use the copy of it")
        assert len(model.requests) == 3

        def interrupted() -> bool:
            at_work.press("Escape")
            return newest_record(at_work.home).detail == "opencode waits at its prompt"

        wait_for(interrupted, what="the interrupt", deadline_seconds=DEADLINE, step_seconds=0.5)
        assert len(model.requests) == 3
    assert not (at_work.work / "made.txt").exists()
