"""The commands of an agent by its ticket: the same words and the same answers as in the home."""

import json
from typing import Any

import pytest

from jobwire.cli.main import main
from jobwire.coordination.remote_agent import RemoteAgent
from jobwire.testing.agent_host import AgentHost


def test_each_command_that_a_ticket_allows(
    host: AgentHost, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Send, fetch, show, take, ack, nack, reply, watch, wait-reply, join, list and leave work by a ticket."""
    monkeypatch.setattr(RemoteAgent, "_by_paho", lambda _self, ticket, _will: host.connect(ticket))
    for name in ("JOBWIRE_AGENT", "JOBWIRE_HOME", "JOBWIRE_TICKET", "JOBWIRE_DB", "JOBWIRE_JOB"):
        monkeypatch.delenv(name, raising=False)
    tickets = {name: str(host.ticket(name)) for name in ("lead", "builder")}

    def run(name: str, *words: str, code: int = 0) -> dict[str, Any]:
        capsys.readouterr()
        found = main([*words, "--ticket", tickets[name], "--json"])
        said = capsys.readouterr()
        assert found == code, said
        answer: dict[str, Any] = json.loads(said.out)
        return answer

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
    assert run("builder", "inbox", "claim", "--thread", thread, code=30)["error"]["code"] == "invalid_input"
    assert run("builder", "inbox", "fetch", "--agent", "lead", code=30)["error"]["code"] == "forbidden"
