"""One port, two implementations: the store on this disk, and a ticket over MQTT. What both promise."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from jobwire.coordination import task_verbs
from jobwire.coordination.agent_port import AgentPort, LocalAgent, claim_next
from jobwire.coordination.agents import Joining, join
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.tasks.new_task import NewTask
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.core.errors import ConflictError, InvalidInputError, JobwireError, NotFoundError, NoWorkError
from jobwire.testing.agent_host import AgentHost

Agents = Callable[[str], AgentPort]


@pytest.fixture(params=["store", "ticket"])
def agents(request: pytest.FixtureRequest, host: AgentHost) -> Agents:
    """Give agents of each kind."""
    if request.param == "store":
        return lambda name: LocalAgent(host.store, name)
    return host.remote


def test_a_message_is_sent_taken_and_acknowledged_once(agents: Agents) -> None:
    """What one agent sends the other takes, in order within a thread, and acknowledges."""
    lead, builder = agents("lead"), agents("builder")
    first = lead.call("send", {"to": ["builder"], "kind": "task", "summary": "one", "id": "m1"})
    again = lead.call("send", {"to": ["builder"], "kind": "task", "summary": "one", "id": "m1"})
    assert (first["duplicate"], again["duplicate"], again["seq"]) == (False, True, first["seq"])
    thread = first["thread_id"]
    lead.call("send", {"to": ["builder"], "kind": "progress", "summary": "two", "thread_id": thread})
    taken: Any = builder.call("take", {"lease_seconds": 60.0})
    assert taken["message"]["summary"] == "one"
    with pytest.raises(NoWorkError):
        builder.call("take", {})
    done: Any = builder.call("ack", {"message": "m1", "token": taken["token"]})
    assert done["delivery"]["state"] == "done"
    following: Any = builder.call("take", {})
    assert following["message"]["summary"] == "two"
    given: Any = builder.call(
        "nack", {"message": following["message"]["message_id"], "reason": "no compiler"}
    )
    assert (given["delivery"]["state"], given["delivery"]["last_error"]) == ("queued", "no compiler")


def test_errors_cross_with_their_codes(agents: Agents) -> None:
    """What the store refuses is refused there as well: the same class, code and hint."""
    lead, other = agents("lead"), agents("other")
    lead.call("send", {"to": ["builder"], "summary": "one", "id": "m1"})
    failures: list[tuple[str, dict[str, object], type[JobwireError], str]] = [
        ("send", {"to": ["builder"], "summary": "other", "id": "m1"}, ConflictError, "duplicate_id"),
        ("send", {"to": ["0a1b2c3d"], "summary": "x"}, InvalidInputError, "invalid_input"),
        ("send", {"to": ["a"], "from_agent": "lead"}, InvalidInputError, "invalid_input"),
        ("send", {"to": "builder"}, InvalidInputError, "invalid_input"),
        ("show", {"thread_id": "none"}, NotFoundError, "thread_not_found"),
        ("ack", {"message": "m1"}, NotFoundError, "message_not_found"),
        ("take", {}, NoWorkError, "no_match"),
    ]
    for verb, args, kind, code in failures:
        with pytest.raises(kind) as caught:
            other.call(verb, args)
        assert caught.value.facts.get("code", "invalid_input") == code


def test_nobody_reads_a_thread_that_it_takes_no_part_in(agents: Agents) -> None:
    """A stranger neither sees nor joins a conversation of others."""
    lead, builder, stranger = agents("lead"), agents("builder"), agents("stranger")
    thread = str(
        lead.call("send", {"to": ["builder"], "kind": "question", "summary": "a secret?"})["thread_id"]
    )
    shown: Any = builder.call("show", {"thread_id": thread})
    assert [one["summary"] for one in shown["messages"]] == ["a secret?"]
    for verb, args in (
        ("show", {"thread_id": thread}),
        ("wait-reply", {"thread_id": thread}),
        ("send", {"thread_id": thread, "summary": "me too"}),
    ):
        with pytest.raises(JobwireError) as caught:
            stranger.call(verb, args)
        assert caught.value.facts["code"] == "forbidden"


def test_a_wait_is_woken_by_the_answer_of_the_other(agents: Agents) -> None:
    """Who asked sleeps until the answer comes, and finds one that came before."""
    worker, lead = agents("worker"), agents("lead")
    thread = worker.call("send", {"to": ["lead"], "kind": "question", "summary": "which port?"})["thread_id"]
    found: list[Any] = []
    waiting = threading.Thread(
        target=lambda: found.append(worker.wait("wait-reply", {"thread_id": thread}, 60.0))
    )
    waiting.start()
    taken: Any = lead.wait("watch", {}, 60.0)
    assert taken["message"]["summary"] == "which port?"
    lead.call("send", {"to": ["worker"], "kind": "answer", "summary": "8883", "thread_id": thread})
    waiting.join(60)
    assert (found[0]["woke"], found[0]["message"]["summary"]) == (True, "8883")
    nothing = worker.wait("wait-reply", {"thread_id": thread, "after": found[0]["next_event_id"]}, 0.01)
    assert (nothing["woke"], nothing["next_event_id"]) == (False, found[0]["next_event_id"])


def test_joining_makes_nobody_a_lead(agents: Agents) -> None:
    """Through the port an agent joins as a worker, or as what its home has made it."""
    builder = agents("builder")
    joined: Any = builder.call("join", {"interval_seconds": 5.0})
    assert (joined["agent"]["kind"], joined["agent"]["liveness"]) == ("worker", "fresh")
    with pytest.raises(InvalidInputError):
        LocalAgent(CoordinationStore("unused"), "builder").call("join", {"kind": "lead"})
    listed: Any = builder.call("agents", {})
    assert [one["agent_id"] for one in listed["agents"]] == ["builder"]
    builder.call("leave", {})
    left: Any = builder.call("agents", {})
    assert left["agents"] == []


def test_work_is_claimed_said_and_done_under_its_lease(agents: Agents) -> None:
    """One claims it, others are told who has it; each word needs the lease, and the end is the end."""
    lead, builder, other = agents("lead"), agents("builder"), agents("other")
    thread = lead.call("send", {"kind": "task", "subject": "fix it", "body": "now"})["thread_id"]
    on = {"thread_id": thread}
    claimed: Any = builder.call("claim", {**on, "lease_seconds": 60.0})
    held = {**on, "token": claimed["lease_token"]}
    assert claimed["thread"]["status"] == "claimed"
    with pytest.raises(ConflictError) as caught:
        other.call("claim", on)
    assert (caught.value.facts["code"], caught.value.facts["holder"]) == ("lease_conflict", "builder")
    assert builder.call("claim", on)["lease_token"] == claimed["lease_token"]
    for wrong in (on, {**on, "token": "0a1b2c3d.7"}, {**on, "token": "x"}):
        with pytest.raises(ConflictError) as caught:
            builder.call("update", {**wrong, "summary": "half"})
        assert caught.value.facts["code"] == "lease_lost"
    updated: Any = builder.call("update", {**held, "summary": "half"})
    assert updated["thread"]["status"] == "in_progress"
    assert builder.call("renew-claim", held)["lease_token"] == claimed["lease_token"]
    with pytest.raises(InvalidInputError) as refused:
        other.call("cancel", on)
    assert refused.value.facts["code"] == "forbidden"
    done: Any = builder.call("done", {**held, "summary": "it works", "id": "d1"})
    assert done["thread"]["status"] == "done"
    again: Any = builder.call("done", {**held, "summary": "it works", "id": "d1"})
    assert (again["duplicate"], again["event_id"]) == (True, done["event_id"])
    with pytest.raises(ConflictError) as caught:
        builder.call("fail", {**held, "summary": "or not"})
    assert caught.value.facts["code"] == "already_terminal"
    shown: Any = lead.call("show", on)
    assert [one["kind"] for one in shown["messages"]] == ["task", "progress", "result"]


def test_a_question_of_work_is_answered_by_a_reply(agents: Agents) -> None:
    """A blocked update is a request with choices; the answer settles it and wakes who waits."""
    lead, builder = agents("lead"), agents("builder")
    thread = lead.call("send", {"to": ["builder"], "kind": "task", "subject": "fix it"})["thread_id"]
    on = {"thread_id": thread}
    token = builder.call("claim", on)["lease_token"]
    words = {"status": "blocked", "summary": "push?", "choices": ["yes", "no"]}
    asked: Any = builder.call("update", {**on, "token": token, **words})
    assert asked["thread"]["status"] == "blocked"
    replied: Any = lead.call("reply", {**on, "summary": "yes"})
    assert replied["request"].startswith(asked["thread"]["job_id"])
    found: Any = builder.wait("wait-reply", {**on, "after": asked["event_id"]}, 60.0)
    assert (found["message"]["kind"], found["message"]["summary"]) == ("answer", "yes")
    with pytest.raises(ConflictError) as caught:
        lead.call("reply", {**on, "summary": "no", "request": replied["request"]})
    assert caught.value.facts["code"] == "not_expected"


def test_locks_keep_others_out_until_they_are_released(agents: Agents) -> None:
    """All or none; the holder is named; a released path wakes who waits for it; strange paths are refused."""
    one, two = agents("one"), agents("two")
    granted: Any = one.call("lock-acquire", {"paths": ["src/a.py", "name:deploy"], "ttl": 60.0})
    assert [lock["path"] for lock in granted["locks"]] == ["src/a.py", "name:deploy"]
    for verb in ("lock-acquire", "lock-check"):
        with pytest.raises(ConflictError) as caught:
            two.call(verb, {"paths": ["src", "docs"]})
        assert (caught.value.facts["code"], caught.value.facts["holder"]) == ("locked", "one")
    assert len(two.call("lock-list", {})["locks"]) == 2  # type: ignore[arg-type]
    found: list[Any] = []
    waiting = threading.Thread(
        target=lambda: found.append(two.wait("lock-free", {"paths": ["src/a.py"]}, 60.0))
    )
    waiting.start()
    one.call("lock-release", {"paths": ["src/a.py"], "token": granted["locks"][0]["token"]})
    waiting.join(60)
    assert found[0]["woke"] is True
    with pytest.raises(ConflictError) as caught:
        one.call("lock-renew", {"paths": ["src/a.py"]})
    assert caught.value.facts["code"] == "lease_lost"
    for path in ("../x", "/etc/passwd", "a/../b", "a//b", "./a", "", "a\nb", "name:", "..", "a/"):
        with pytest.raises(InvalidInputError):
            two.call("lock-acquire", {"paths": [path]})
    with pytest.raises(InvalidInputError):
        two.call("lock-acquire", {"paths": []})


def test_who_waits_for_a_lock_gets_it_in_its_turn(agents: Agents) -> None:
    """The first waiter is first; who asks with somebody else's place gets none of it; who leaves is gone."""
    one, two, three = agents("one"), agents("two"), agents("three")
    wanted = {"paths": ["a.py"], "wait": True}
    one.call("lock-acquire", {"paths": ["a.py"]})
    place: Any = two.call("lock-acquire", wanted)
    assert (place["woke"], place["locks"]) == (False, [])
    stolen: Any = three.call("lock-acquire", {**wanted, "waiting": place["waiting"]})
    assert stolen["waiting"] > place["waiting"]
    found: list[Any] = []
    asked = {**wanted, "waiting": place["waiting"]}
    waiting = threading.Thread(target=lambda: found.append(two.wait("lock-acquire", asked, 60.0)))
    waiting.start()
    one.call("lock-release", {})
    waiting.join(60)
    assert (found[0]["woke"], found[0]["locks"][0]["agent"]) == (True, "two")
    three.call("lock-leave", {"waiting": stolen["waiting"]})
    state: Any = one.call("lock-list", {})
    assert (len(state["locks"]), state["waiting"]) == (1, [])


def test_a_wait_that_would_close_a_circle_is_refused(agents: Agents) -> None:
    """Two that hold what the other wants: the second wait names the circle, and leaves nothing behind."""
    one, two = agents("one"), agents("two")
    one.call("lock-acquire", {"paths": ["x"]})
    two.call("lock-acquire", {"paths": ["y"]})
    one.call("lock-acquire", {"paths": ["y"], "wait": True})
    with pytest.raises(ConflictError) as caught:
        two.call("lock-acquire", {"paths": ["x"], "wait": True})
    assert caught.value.facts["code"] == "deadlock"
    assert len(one.call("lock-list", {})["waiting"]) == 1  # type: ignore[arg-type]


def test_a_board_is_for_its_members(agents: Agents) -> None:
    """Members have their turns and are asked; a stranger neither speaks nor reads."""
    lead, member, stranger = agents("lead"), agents("member"), agents("stranger")
    asked = {"checkpoint": "PLAN", "proposal": "do it", "members": ["lead", "member"], "quick": True}
    board = lead.call("board-open", asked)["board_id"]
    summoned: Any = member.wait("watch", {}, 60.0)
    assert board in summoned["message"]["summary"]
    for verb, args in (("board-show", {}), ("board-assess", {"verdict": "APPROVE"})):
        with pytest.raises(InvalidInputError) as caught:
            stranger.call(verb, {"board": board, **args})
        assert caught.value.facts["code"] == "not_a_member"
    with pytest.raises(ConflictError) as early:
        lead.call("board-vote", {"board": board, "verdict": "APPROVE"})
    assert early.value.facts["code"] == "board_phase"
    for one in (lead, member):
        one.call("board-assess", {"board": board, "verdict": "CONCERNS", "concerns": ["tests"]})
    decided: Any = member.wait("board-wait", {"board": board}, 60.0)
    assert (decided["woke"], decided["board"]["verdict"]) == (True, "APPROVED")
    with pytest.raises(NotFoundError):
        lead.call("board-show", {"board": "board-none"})


def test_an_agent_finds_its_board_behind_the_boards_of_others(agents: Agents) -> None:
    """The newest are those that it is on, or opened, however many others there are."""
    lead, member, other = agents("lead"), agents("member"), agents("other")
    asked: dict[str, object] = {"checkpoint": "PLAN", "proposal": "do it"}
    mine = lead.call("board-open", {**asked, "members": ["member", "ann"]})["board_id"]
    for _ in range(3):
        other.call("board-open", {**asked, "members": ["bob", "eve"]})
    for one, open_ in ((lead, False), (member, True)):
        found: Any = one.call("board-list", {"limit": 2, "open": open_})
        assert [board["board_id"] for board in found["boards"]] == [mine]
    others: Any = other.call("board-list", {"limit": 2})
    assert len(others["boards"]) == 2


@pytest.fixture
def plan(host: AgentHost) -> Tasks:
    """Give the plan of a lead: the builder's task, another that waits for it, one that is anybody's."""
    with host.store.changing() as change:
        join(change, "lead", Joining(kind="lead"))
    tasks = Tasks(host.store, "lead", environ={})
    tasks.add(NewTask("parse", "T1", owner="builder", reviewers=("ann",), review="required"))
    tasks.add(NewTask("measure", "T2", owner="tester", needs=("T1",)))
    tasks.add(NewTask("tidy up", "T3", priority="high"))
    return tasks


def test_a_task_is_claimed_done_reviewed_and_unlocks_the_next(agents: Agents, plan: Tasks) -> None:
    """Who works on a plan sees its own tasks and anybody's; each change needs the lease, or is another's."""
    builder, tester, ann = agents("builder"), agents("tester"), agents("ann")
    listed: Any = builder.call("task-list", {})
    assert [(one["task_id"], one["status"]) for one in listed["tasks"]] == [("T1", "ready"), ("T3", "ready")]
    assert builder.call("task-list", {"statuses": ["failed"]})["tasks"] == []
    assert builder.call("task-next", {})["task_ids"] == ["T3", "T1"]
    waits: Any = tester.call("task-show", {"task_id": "T2"})
    assert waits["task"]["waiting"]["ref"] == "T1"
    claimed: Any = builder.call("task-claim", {"task_id": "T1", "lease_seconds": 60.0})
    again: Any = builder.call("task-claim", {"task_id": "T1"})
    assert (claimed["task"]["status"], again["lease_token"]) == ("in_progress", claimed["lease_token"])
    words = {"task_id": "T1", "token": claimed["lease_token"], "summary": "it parses", "id": "d1"}
    done: Any = builder.call("task-complete", words)
    assert done["task"]["status"] == "in_review"
    twice: Any = builder.call("task-complete", words)
    assert (twice["duplicate"], twice["event_id"]) == (True, done["event_id"])
    reviewed: Any = ann.call("task-review", {"task_id": "T1", "approve": True, "reason": "well done"})
    assert reviewed["task"]["status"] == "completed"
    unlocked: Any = tester.wait("watch", {}, 60.0)
    assert unlocked["message"]["task_id"] == "T2"
    held: Any = tester.call("task-claim", {"task_id": "T2"})
    said = {"task_id": "T2", "token": held["lease_token"], "summary": "no clock", "permanent": True}
    failed: Any = tester.call("task-fail", said)
    assert (failed["task"]["status"], failed["task"]["reason"]) == ("failed", "no clock")
    shown: Any = tester.call("task-show", {"task_id": "T2"})
    assert [run["outcome"] for run in shown["runs"]] == ["failed"]
    assert [view.task.status.value for view in plan.graph()] == ["completed", "failed", "pending"]


def test_what_a_task_refuses_it_refuses_everywhere(agents: Agents, plan: Tasks) -> None:
    """What waits, is another's, is unknown, is not held or not as expected: the same class and code."""
    builder, tester, lead = agents("builder"), agents("tester"), agents("lead")
    refusals: list[tuple[AgentPort, str, dict[str, object], type[JobwireError], str]] = [
        (tester, "task-claim", {"task_id": "T2"}, ConflictError, "deps_blocked"),
        (tester, "task-claim", {"task_id": "T1"}, ConflictError, "owner_mismatch"),
        (tester, "task-claim", {"task_id": "none"}, NotFoundError, "task_not_found"),
        (tester, "task-show", {"task_id": "T1"}, InvalidInputError, "forbidden"),
        (builder, "task-complete", {"task_id": "T1", "summary": "x"}, ConflictError, "lease_lost"),
        (builder, "task-claim", {"task_id": "T1", "expect_version": 9}, ConflictError, "not_expected"),
        (lead, "task-review", {"task_id": "T1", "approve": True}, ConflictError, "not_expected"),
        (lead, "task-review", {"task_id": "T1", "approve": False}, InvalidInputError, "invalid_input"),
        (lead, "task-list", {"statuses": ["redy"]}, InvalidInputError, "invalid_input"),
        (lead, "task-merge", {"task_id": "T1"}, InvalidInputError, "invalid_input"),
        (lead, "task-retry", {"task_id": "T1"}, InvalidInputError, "invalid_input"),
        (lead, "task-cancel", {"task_id": "T1"}, InvalidInputError, "invalid_input"),
    ]
    for agent, verb, args, kind, code in refusals:
        with pytest.raises(kind) as caught:
            agent.call(verb, args)
        assert caught.value.facts.get("code", "invalid_input") == code, verb
    everything: Any = lead.call("task-list", {})
    assert [one["task_id"] for one in everything["tasks"]] == ["T1", "T2", "T3"]
    assert {view.task.rounds for view in plan.graph()} == {0, 1}


def test_a_claim_goes_on_where_others_were_quicker(agents: Agents, plan: Tasks) -> None:
    """Who loses one ready task after the other has the next one, and does not hear that there is none."""
    plan.add_all([NewTask(f"n{number}", f"n{number}", owner="builder") for number in range(30)])
    builder, lost = agents("builder"), list[object]()

    def call(verb: str, args: dict[str, object]) -> dict[str, object]:
        if verb == "task-claim" and len(lost) < 25:
            lost.append(args["task_id"])
            raise ConflictError("somebody was quicker")
        return builder.call(verb, args)

    claimed: Any = claim_next(call, "builder", {})
    assert (len(set(lost)), claimed["task"]["task_id"]) == (25, "n23")


def test_who_lists_page_after_page_is_told_of_the_next(
    agents: Agents, plan: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that holds as many as one may is not taken for all there is."""
    monkeypatch.setattr(task_verbs, "MOST", 2)
    lead, asked = agents("lead"), {"after": 0, "limit": 2}
    first: Any = lead.call("task-list", asked)
    second: Any = lead.call("task-list", {**asked, **first["more"]})
    names = [[one["task_id"] for one in page["tasks"]] for page in (first, second)]
    assert (names, "more" in second, len(plan.graph())) == ([["T1", "T2"], ["T3"]], False, 3)


def test_a_plan_that_fits_no_answer_is_listed_in_parts(agents: Agents, plan: Tasks) -> None:
    """Each answer tells where the next begins, and none is listed twice."""
    plan.add_all([NewTask(f"n{number}", f"n{number}", text="x" * 4000) for number in range(60)])
    lead, found = agents("lead"), list[str]()
    asked: dict[str, object] | None = {"limit": 50}
    while asked is not None:
        page: Any = lead.call("task-list", asked)
        found += [one["task_id"] for one in page["tasks"]]
        asked = page.get("more")
    assert found == ["T1", "T2", "T3", *(f"n{number}" for number in range(47))]


def test_a_dead_letter_is_brought_back_or_dropped_by_those_it_concerns(agents: Agents) -> None:
    """Its sender and its recipient see and move it, each to its own; a stranger is told nothing of it."""
    lead, builder, stranger = agents("lead"), agents("builder"), agents("stranger")
    tester = agents("tester")
    lead.call("send", {"to": ["builder", "tester"], "summary": "one", "id": "m1"})
    for one in (builder, tester):
        taken: Any = one.call("take", {})
        given = {"message": "m1", "token": taken["token"], "reason": "no disk", "permanent": True}
        one.call("nack", given)
    assert [len(one.call("dead", {})["dead"]) for one in (lead, builder, stranger)] == [2, 1, 0]  # type: ignore[arg-type]
    for verb in ("dead-show", "dead-redrive", "dead-drop"):
        with pytest.raises(InvalidInputError) as caught:
            stranger.call(verb, {"message": "m1"})
        assert caught.value.facts["code"] == "forbidden"
    back: Any = builder.call("dead-redrive", {"message": "m1"})
    assert [(one["agent_id"], one["state"]) for one in back["deliveries"]] == [("builder", "queued")]
    dropped: Any = lead.call("dead-drop", {"message": "m1", "recipient": "tester"})
    assert [(one["agent_id"], one["state"]) for one in dropped["deliveries"]] == [("tester", "dropped")]
    again: Any = builder.call("take", {})
    assert again["message"]["message_id"] == "m1"
