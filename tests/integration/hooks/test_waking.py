"""What waits behind a turn while the pane stays free: a verdict that is missing, an error of the service."""

import io
import json
import sys
from pathlib import Path

import pytest

from jobwire.hooks.main import WAKE, WAKES, hook
from jobwire.testing.hooked_agent import Aside, HookedAgent

OVERLOADED = {"error": "server_error", "last_assistant_message": "API Error: 529 overloaded"}
# What is tried again at once, as far as policy lets it.
QUICK = "[agents.policy]\nretries = 2\nretry_seconds = 1\n"


@pytest.fixture
def agent(tmp_path: Path) -> HookedAgent:
    """Return an agent that has begun."""
    return HookedAgent(tmp_path)


def test_an_error_of_the_service_is_tried_again_by_policy_and_then_asked(agent: HookedAgent) -> None:
    """Each try says which of how many it is and waits longer; behind the last a person decides."""
    agent.own_settings(QUICK)
    for number in (1, 2):
        agent.hook("StopFailure", **OVERLOADED)
        told = agent.behind("StopFailure", **OVERLOADED)
        assert "go on with the work" in told
        assert "completed:" in told
        asked = agent.record.requests[-1]
        assert (asked.kind, asked.choices, asked.default) == ("error", ("retry", "error"), "retry")
        assert asked.text.endswith(f"tried again in {number} s ({number} of 2)")
        assert asked.settled
    waiting = Aside(lambda: agent.behind("StopFailure", **OVERLOADED))
    (request,) = agent.asked()
    assert request.text == "the model's service failed (server_error): API Error: 529 overloaded"
    agent.answer(request, "retry: with the smaller model")
    assert waiting.result().startswith("with the smaller model")
    said = [(detail, data["policy"]) for _, detail, data in agent.events() if "policy" in data]
    assert said == [
        (f"tried again by policy ({number} of 2)", {"retry": number, "retries": 2}) for number in (1, 2)
    ]
    failures = [data for _, _, data in agent.events() if "retryable" in data]
    assert [(one["error"], one["retryable"]) for one in failures] == [("server_error", True)] * 2
    assert not agent.record.attention


def test_a_person_may_give_the_job_up_before_the_next_try(agent: HookedAgent) -> None:
    """Answered `error` while policy waits: the job ends, and the agent is not woken."""
    agent.own_settings("[agents.policy]\nretry_seconds = 900\n")
    waiting = Aside(lambda: agent.behind("StopFailure", **OVERLOADED))
    (request,) = agent.asked()
    assert request.expires_at is not None
    agent.answer(request, "error: we have no budget left")
    assert waiting.result() == ""
    assert (agent.record.status, agent.record.detail) == ("error", "we have no budget left")


def test_what_no_waiting_helps_is_not_tried_again(agent: HookedAgent) -> None:
    """A refused key is asked about at once; who goes on at the pane settles that."""
    agent.own_settings(QUICK)
    waiting = Aside(lambda: agent.behind("StopFailure", error="authentication_failed"))
    (request,) = agent.asked()
    assert request.default is None
    agent.hook("UserPromptSubmit", prompt="now it works")
    assert waiting.result() == ""
    assert agent.record.requests[-1].state == "resolved"


def test_a_turns_end_keeps_what_is_asked_about_it(agent: HookedAgent) -> None:
    """Two hooks run at the end of a turn: the one that notes it does not close what the other one asks."""
    ended = {"stop_hook_active": True, "last_assistant_message": "Made it."}
    waiting = Aside(lambda: agent.behind("Stop", **ended))
    (request,) = agent.asked()
    agent.hook("Stop", **ended)
    agent.hook("StopFailure", **OVERLOADED)
    assert [one.id for one in agent.asked()] == [request.id]
    agent.answer(request, "and now the tests")
    assert waiting.result() == "and now the tests"


def test_a_process_that_ends_with_its_turn_is_not_woken(agent: HookedAgent) -> None:
    """How it ends is the verdict: the failure is said, and nobody is asked."""
    agent.environ["JOBWIRE_AGENT_ENDS"] = "1"
    agent.hook("StopFailure", **OVERLOADED)
    assert agent.behind("StopFailure", **OVERLOADED) == ""
    assert agent.record.requests == ()
    assert agent.events()[-1][0] == "progress"


def test_what_wakes_an_agent_is_the_exit_code_and_stderr(
    agent: HookedAgent, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Claude Code takes it from a hook in the background."""
    agent.own_settings(QUICK)
    body = json.dumps({"hook_event_name": "StopFailure", "session_id": "c-1", **OVERLOADED})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(body.encode())))
    assert hook("claude", [WAKE], environ=agent.environ) == WAKES
    said = capsys.readouterr()
    assert said.out == ""
    assert "go on with the work" in said.err
