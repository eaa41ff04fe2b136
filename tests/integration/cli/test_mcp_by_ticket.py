"""The tools of an agent on another host: the same words as at home, by its ticket."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from jobwire.api.home import Home
from jobwire.cli.mcp_server import AgentTools
from jobwire.cli.mcp_ticket import TicketTools
from jobwire.coordination.remote_agent import RemoteAgent
from jobwire.core.errors import ConflictError, InvalidInputError, NoWorkError
from jobwire.registry.layout import HomeLayout
from jobwire.testing.agent_host import AgentHost


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentHost]:
    """Give a host that serves agents elsewhere."""
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)
    one = AgentHost(tmp_path)
    monkeypatch.setattr(RemoteAgent, "_by_paho", lambda _self, ticket, _will: one.connect(ticket))
    one.start()
    yield one
    one.stop()


def test_a_worker_elsewhere_works_with_tools_alone(host: AgentHost) -> None:
    """From the work that waits to its result, with a question that the lead answers on the way."""
    lead = host.remote("lead")
    thread = str(lead.call("send", {"to": ["builder"], "kind": "task", "subject": "fix it"})["thread_id"])
    tools = TicketTools(str(host.ticket("builder")), None)
    offered = {tool.__name__ for tool in tools.all()}
    assert {"ask", "fetch", "claim", "update", "done", "fail", "search", "lock_acquire"} <= offered
    assert "report" not in offered
    assert [one["thread_id"] for one in tools.fetch()["threads"]] == [thread]
    assert tools.claim(thread)["thread"]["status"] == "claimed"
    assert tools.update(thread, "half")["thread"]["status"] == "in_progress"

    def answer() -> None:
        found = lead.wait("watch", {"statuses": ["blocked"]}, 60.0)
        assert found["woke"]
        lead.call("reply", {"thread_id": thread, "summary": "yes"})

    answering = threading.Thread(target=answer)
    answering.start()
    given = tools.ask("push?", thread, ["yes", "no"], 60.0)
    answering.join(60)
    assert (given["answer"], given["by"]) == ("yes", "lead")
    assert tools.wait_reply(thread, 30.0)["message"]["summary"] == "yes"
    assert tools.lock_acquire(["a.py"])["locks"][0]["agent"] == "builder"
    lead.call("lock-acquire", {"paths": ["b.py"]})
    with pytest.raises(ConflictError):
        tools.lock_acquire(["b.py"])
    with pytest.raises(NoWorkError):
        tools.lock_acquire(["b.py"], wait_seconds=0.01)
    with pytest.raises(InvalidInputError):
        tools.lock_acquire(["b.py"], wait_seconds=float("nan"))
    assert len(tools.lock_release()["locks"]) == 1
    tools.reply(thread, "soon there")
    assert tools.search("soon")["messages"]
    assert tools.done(thread, "fixed")["thread"]["status"] == "done"
    other = tools.send(["builder"], "more")["thread_id"]
    tools.claim(other)
    assert tools.fail(other, "no network")["thread"]["status"] == "failed"
    assert isinstance(tools.agents()["agents"], list)
    assert tools.show(thread)["messages"]
    tools.close()


def test_a_ticket_speaks_for_its_agent_alone(host: AgentHost) -> None:
    """Another name beside the ticket is refused at the start."""
    with pytest.raises(InvalidInputError) as caught:
        TicketTools(str(host.ticket("builder")), "lead")
    assert caught.value.facts["code"] == "forbidden"


Tools = Callable[[str], AgentTools]


@pytest.fixture(params=["home", "ticket"])
def tools(request: pytest.FixtureRequest, host: AgentHost) -> Tools:
    """Give tools of each kind."""
    HomeLayout(host.store.home).make_layout()
    if request.param == "home":
        return lambda name: AgentTools(host.store.home, name)
    return lambda name: TicketTools(str(host.ticket(name)), None)


def test_a_plan_is_worked_off_with_tools_alone(host: AgentHost, tools: Tools) -> None:
    """An agent claims, completes, fails and reviews, at home and elsewhere, and is refused its own review."""
    lead = AgentTools(host.store.home, "lead")
    first = lead.task_add("write", owner="builder", accept=["make test"], reviewers=["ann"])["task"][
        "task_id"
    ]
    lead.task_add("ship", owner="builder", depends_on=[first])
    builder, ann = tools("builder"), tools("ann")
    assert {"task_list", "task_claim", "task_review"} <= {tool.__name__ for tool in builder.all()}
    claimed = builder.task_claim()
    assert (claimed["task"]["task_id"], claimed["task"]["acceptance"]) == (first, ["make test"])
    assert builder.task_fail(first, "no disk", permanent=True)["task"]["status"] == "failed"
    with Home(host.store.home).tasks("lead") as tasks:
        tasks.retry(first)
    builder.task_claim(first)
    assert builder.task_complete(first, "done", branch="fix/a")["task"]["status"] == "in_review"
    with pytest.raises(InvalidInputError):
        builder.task_review(first, approve=True)
    assert ann.task_review(first, approve=True)["task"]["status"] == "approved"
    assert [one["task_id"] for one in builder.task_list(status="approved")["tasks"]] == [first]
    assert [run["outcome"] for run in builder.task_show(first)["runs"]] == ["failed", "done"]
    with Home(host.store.home).tasks("lead") as tasks:
        tasks.merge(first)
    assert builder.task_list(status="ready")["tasks"][0]["title"] == "ship"
    with pytest.raises(NoWorkError):
        ann.task_claim()
    for one in (builder, ann):
        one.close()
