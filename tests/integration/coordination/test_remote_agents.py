"""Agents on other hosts when something goes wrong: nothing is lost or done twice."""

import random
import threading
from typing import Any

import pytest

from jobwire.coordination import agents
from jobwire.coordination.agent_verbs import verbs_of_agents
from jobwire.coordination.agents import Beat, Joining
from jobwire.coordination.heartbeat import Heartbeat
from jobwire.coordination.message import STORE_AGENT
from jobwire.coordination.reading import message_of
from jobwire.coordination.remote_form import (
    MAX_REQUEST,
    Presence,
    RemoteRequest,
    open_answer,
    open_presence,
    open_request,
    seal_presence,
    seal_request,
)
from jobwire.core.errors import ConflictError, InvalidInputError, UnreachableError
from jobwire.core.ports import Message
from jobwire.core.topics import Topics
from jobwire.testing.agent_host import AgentHost
from jobwire.testing.waiting import wait_for

SEND: dict[str, object] = {"to": ["builder"], "kind": "task", "summary": "fix it"}


def _messages(host: AgentHost) -> list[str]:
    return [row[14] for row in host.store.rows("messages_after", {"after": 0, "limit": 1000})]


def test_what_is_said_while_the_broker_is_away_is_kept_and_sent_once(host: AgentHost) -> None:
    """Exit 60 says that it is kept; the next command sends it first, in order."""
    lead = host.remote("lead")
    lead.call("agents", {})
    host.broker.stop()
    for number in range(3):
        with pytest.raises(UnreachableError) as caught:
            lead.call("send", {**SEND, "summary": f"kept {number}"})
        assert caught.value.facts["kept"] is True
    with pytest.raises(UnreachableError) as caught:
        lead.call("fetch", {})
    assert "kept" not in caught.value.facts
    host.broker.start()
    wait_for(lambda: host.service.facts()["connected"])
    # Another process of the same ticket does as well.
    lead.close()
    other = host.speaker(lead.path)
    with other:
        other.call("send", {**SEND, "summary": "fresh"})
        assert other.flush() == 0
    assert _messages(host) == ["kept 0", "kept 1", "kept 2", "fresh"]


def test_an_answer_that_is_lost_is_given_again(host: AgentHost) -> None:
    """A request that comes twice, as after a crash before the answer, is applied once."""
    key = host.keys.renew("lead")
    request = RemoteRequest("lead", "r1", "send", SEND, host.store.clock.now())
    first, again = host.service.answer(request), host.service.answer(request)
    assert first == again
    assert _messages(host) == ["fix it"]
    other = host.service.answer(request._replace(args={**SEND, "summary": "another"}))
    assert other.error is not None
    assert other.error["code"] == "duplicate_id"
    with pytest.raises(ConflictError):
        other.outcome()
    assert open_request(seal_request(request, key), key, "lead") == request


def test_a_take_that_comes_twice_leases_one_message(host: AgentHost) -> None:
    """Asking again after a lost answer gives the same message under the same lease."""
    lead = host.remote("lead")
    for number in range(2):
        lead.call("send", {**SEND, "summary": f"task {number}"})
    request = RemoteRequest("builder", "r2", "take", {}, host.store.clock.now())
    assert host.service.answer(request) == host.service.answer(request)


def _claimed(host: AgentHost) -> dict[str, object]:
    """Return thread and token of work that the builder has claimed."""
    thread = host.remote("lead").call("send", SEND)["thread_id"]
    claim = RemoteRequest("builder", "c1", "claim", {"thread_id": thread}, host.store.clock.now())
    first = host.service.answer(claim)
    assert host.service.answer(claim) == first
    return {"thread_id": thread, "token": first.outcome()["lease_token"]}


@pytest.mark.parametrize("verb", ["update", "done", "fail", "reply", "cancel"])
def test_work_that_is_said_twice_is_done_once_though_the_answer_was_never_kept(
    host: AgentHost, verb: str
) -> None:
    """Killed between the job's record and the answer, the process does the request again: nothing is new."""
    held = _claimed(host)
    words = {"reason": "why"} if verb == "cancel" else {"summary": "said"}
    args = (
        {**held, **words} if verb in {"update", "done", "fail"} else {"thread_id": held["thread_id"], **words}
    )
    request = RemoteRequest("builder", "r6", verb, args, host.store.clock.now())
    first = host.service.answer(request).outcome()
    with host.store.changing() as change:
        # As if the second commit had never come.
        change.execute("forget_remote_requests", {"before": 2**62})
    again = host.service.answer(request).outcome()
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert (again["message_id"], again["thread"]) == (first["message_id"], first["thread"])
    assert _messages(host).count("why" if verb == "cancel" else "said") == 1
    assert host.service.answer(request).outcome() == again


def test_another_request_under_the_same_id_is_refused_for_work_too(host: AgentHost) -> None:
    """An id is given once, also where a job's record is changed."""
    held = _claimed(host)
    request = RemoteRequest("builder", "r7", "update", {**held, "summary": "one"}, host.store.clock.now())
    host.service.answer(request).outcome()
    with pytest.raises(ConflictError) as caught:
        host.service.answer(request._replace(args={**held, "summary": "two"})).outcome()
    assert caught.value.facts["code"] == "duplicate_id"
    assert _messages(host) == ["fix it", "one"]


def test_a_change_that_fails_leaves_nothing_and_may_succeed_later(host: AgentHost) -> None:
    """What is refused is not remembered: the same request is applied once its reason is gone."""
    request = RemoteRequest("a", "r3", "send", {**SEND, "in_reply_to": "m9"}, host.store.clock.now())
    assert host.service.answer(request).error is not None
    host.remote("builder").call("send", {"to": ["a"], "summary": "first", "id": "m9"})
    assert host.service.answer(request).error is None


def test_old_requests_are_not_replayed(host: AgentHost) -> None:
    """What is older than a remembered id could be is refused."""
    old = RemoteRequest("a", "r4", "send", SEND, host.store.clock.now() - 31 * 86400)
    error = host.service.answer(old).error
    assert error is not None
    assert "30 days" in str(error["error"])


def test_nobody_is_believed_without_its_key(host: AgentHost) -> None:
    """Unknown agents, other keys, old tickets, garbage: dropped, counted, and nothing is stored."""
    key = host.keys.renew("lead")
    topics = Topics()
    request = RemoteRequest("lead", "r5", "send", SEND, host.store.clock.now())
    outbox = topics.agent("lead", "outbox")
    good = seal_request(request, key)
    host.keys.renew("lead")
    for topic, payload in (
        (outbox, good),
        (topics.agent("nobody", "outbox"), good),
        (outbox, b"{}"),
        (outbox, b"\xff" * 100),
        (topics.agent("lead", "presence"), b"[]"),
        ("python/mqtt/agents/agent./../x/outbox", good),
        (outbox, seal_request(request._replace(agent="other"), host.keys.key("lead") or "")),
    ):
        host.service.handle(Message(topic, payload, retain=False, qos=1))
    assert host.service.counts["refused"] == 7
    assert _messages(host) == []
    assert host.journal == []


def test_nobody_elsewhere_is_the_store_itself(host: AgentHost) -> None:
    """A key of that name, from before no ticket had it, opens nothing."""
    key = host.keys.renew(STORE_AGENT)
    request = RemoteRequest(STORE_AGENT, "r8", "send", SEND, host.store.clock.now())
    outbox = Topics().agent(STORE_AGENT, "outbox")
    host.service.handle(Message(outbox, seal_request(request, key), retain=False, qos=1))
    assert (host.service.counts["refused"], _messages(host)) == (1, [])


def test_a_request_that_cannot_be_sent_is_refused_at_once(host: AgentHost) -> None:
    """Too large, or no JSON: said where it can be mended, and not kept."""
    lead = host.remote("lead")
    for args in ({**SEND, "body": "x" * MAX_REQUEST}, {**SEND, "payload": float("nan")}):
        with pytest.raises(InvalidInputError):
            lead.call("send", args)
    assert lead.flush() == 0


def test_an_answer_that_is_too_large_says_so(host: AgentHost) -> None:
    """Many large messages are not sent in one packet: the agent is told to ask for fewer."""
    lead = host.remote("lead")
    thread = lead.call("send", {**SEND, "body": "x" * 60_000})["thread_id"]
    for _ in range(3):
        lead.call("send", {"to": ["builder"], "thread_id": thread, "body": "x" * 60_000})
    with pytest.raises(InvalidInputError) as caught:
        lead.call("show", {"thread_id": thread})
    assert caught.value.facts["code"] == "too_large"
    shown: Any = lead.call("show", {"thread_id": thread, "limit": 1})
    assert len(shown["messages"]) == 1


def test_what_crosses_is_journaled(host: AgentHost) -> None:
    """Request and answer stand in the journal, signed as they crossed."""
    lead = host.remote("lead")
    lead.call("send", SEND)
    key = host.keys.key("lead") or ""
    asked, answered = host.journal
    assert asked.topic.endswith("/outbox")
    assert open_request(asked.payload, key, "lead") is not None
    assert open_answer(answered.payload, key, "lead") is not None


def test_presence_is_a_sign_of_life_and_vanishing_is_told(host: AgentHost) -> None:
    """Beats arrive as the agent's status; a Will tells that it vanished."""
    builder = host.remote("builder")
    with Heartbeat("builder", builder, interval_seconds=0.05) as heartbeat:
        heartbeat.update("working", task="T7", progress=0.5)
        wait_for(lambda: [view.current_task for view in agents.present(host.store)] == ["T7"])
    wait_for(lambda: agents.find(host.store, "builder").status == "stopped")
    topic = Topics().agent("builder", "presence")
    retained = host.broker.retained[topic]
    said = open_presence(retained.payload, host.keys.key("builder") or "", "builder")
    assert said is not None
    assert (said.status, said.lost) == ("stopped", False)
    before = agents.find(host.store, "builder").ts_ms
    host.service.handle(Message(topic, retained.payload, retain=True, qos=1))
    host.service.handle(Message(topic, retained.payload, retain=False, qos=1))
    assert agents.find(host.store, "builder").ts_ms == before
    lost = seal_presence(said._replace(lost=True), host.keys.key("builder") or "")
    host.service.handle(Message(topic, lost, retain=False, qos=1))
    names = [row[5] for row in host.store.rows("events_after", {"after": 0, "thread_id": None, "limit": 99})]
    assert "agent_unreachable" in names


def test_a_presence_with_nonsense_is_dropped(host: AgentHost) -> None:
    """A status that nobody knows, from a genuine agent, changes nothing."""
    asleep = seal_presence(Presence("a", "i", 1, "asleep"), host.keys.renew("a"))
    host.service.handle(Message(Topics().agent("a", "presence"), asleep, retain=False, qos=1))
    assert agents.present(host.store) == []
    with pytest.raises(InvalidInputError):
        host.remote("a").beat("b", Beat())
    with pytest.raises(InvalidInputError):
        host.remote("a").join("b", Joining())


def test_an_idle_process_holds_nobody_up(host: AgentHost) -> None:
    """A program that keeps its connection gives it to another process of its ticket that wants to speak."""
    first = host.remote("worker")
    first.call("agents", {})
    with host.speaker(first.path) as second:
        second.call("agents", {})
        first.call("agents", {})
        second.call("agents", {})


def test_two_processes_of_one_ticket_take_turns(host: AgentHost) -> None:
    """While one waits for long, another speaks for the same agent: the waiter makes room."""
    worker = host.remote("worker")
    thread = worker.call("send", {"to": ["lead"], "kind": "question", "summary": "?"})["thread_id"]
    found: list[Any] = []
    waiting = threading.Thread(
        target=lambda: found.append(worker.wait("wait-reply", {"thread_id": thread}, 60.0))
    )
    waiting.start()
    other = host.speaker(worker.path)
    with other:
        sent = other.call("send", {"to": ["lead"], "summary": "meanwhile", "id": "m7"})
    assert message_of(host.store, "m7").seq == sent["seq"]
    host.remote("lead").call(
        "send", {"to": ["worker"], "kind": "answer", "summary": "!", "thread_id": thread}
    )
    waiting.join(60)
    assert found[0]["message"]["summary"] == "!"


_NONSENSE: dict[str, list[object]] = {
    "a text": ["", "\0", "a\nb", "\x1b[31m", "x" * 5000, "\ud800", "\u202e", "../x", "0a1b2c3d", "name:"],
    "a whole number": [0, -1, 1, 2**61, -(2**61)],
    "a number": [0, -1, 1e308, float("inf"), float("nan"), 2**70],
    "true or false": [True, False],
    "a list of texts": [[], ["\0"], ["\ud800"], ["a", "a"], ["*"], [str(one) for one in range(2000)]],
    "a list of objects": [[], [{}], [{"path": 1}], [{"path": "\0"}], [{"path": "a"}] * 2000],
}


def test_no_nonsense_is_a_defect(host: AgentHost) -> None:
    """Whatever the arguments of whichever verb: done, or refused with its reason, and nothing half done."""
    rolls = random.Random(7)  # noqa: S311 - a test that can be repeated
    for number in range(600):
        verb = rolls.choice(sorted(verbs_of_agents()))
        found = verbs_of_agents()[verb]
        args = {
            name: rolls.choice([*_NONSENSE[kind], None])
            for name, kind in found.takes.items()
            if name in found.needs or rolls.random() < 0.5
        }
        request = RemoteRequest("builder", f"n{number}", verb, args, host.store.clock.now())
        error = host.service.answer(request).error
        assert error is None or "the log of" not in str(error["hint"]), (verb, args)
    assert not host.store.rows("prepared_jobs")
