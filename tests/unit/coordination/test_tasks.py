"""Tasks in the store: what is ready goes to its owner, once; what fails comes back or takes others along."""

from collections.abc import Callable

import pytest

from jobwire.coordination import agents, reading, sending
from jobwire.coordination.agents import Joining
from jobwire.coordination.dead_letters import Chosen, buried, failed_task, raise_all
from jobwire.coordination.marks import catch_up
from jobwire.coordination.message import NewMessage
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.stored import InboxMessage
from jobwire.coordination.tasks.new_task import NewTask
from jobwire.coordination.tasks.states import TaskStatus
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.coordination.work import ThreadWork
from jobwire.core.errors import ConflictError, InvalidInputError, JobwireError, NotFoundError, NoWorkError
from jobwire.jobs.lifecycle import Status
from jobwire.registry.queue import JobQueue
from jobwire.registry.store import RecordStore
from jobwire.testing.clock import ManualClock

As = Callable[..., Tasks]
WORDS = NewMessage("builder", kind="result", summary="it works")


@pytest.fixture
def tasks_of(store: CoordinationStore) -> As:
    """Give the tasks as an agent sees them."""

    def make(agent: str = "builder", incarnation: str = "") -> Tasks:
        return Tasks(store, agent, incarnation=incarnation, environ={})

    return make


def code(caught: pytest.ExceptionInfo[JobwireError]) -> object:
    """Return the error's word."""
    return caught.value.facts.get("code")


def task(task_id: str, *needs: str, owner: str = "builder", **more: object) -> NewTask:
    """Return a task to add."""
    return NewTask(f"do {task_id}", task_id, owner=owner, needs=needs, **more)  # type: ignore[arg-type]


def said(store: CoordinationStore, agent: str) -> list[InboxMessage]:
    """Return what an agent was sent of kind task, oldest first."""
    found = [InboxMessage(*row) for row in store.rows("messages_after", {"after": 0, "limit": -1})]
    return [one for one in found if one.kind == "task" and agent in one.to]


def run(tasks: Tasks, task_id: str, *, agent: str = "builder") -> TaskStatus:
    """Claim and complete a task."""
    tasks.claim(task_id)
    return tasks.complete(task_id, WORDS._replace(from_agent=agent)).task.status


def status_of(tasks: Tasks, task_id: str) -> str:
    """Return where a task is."""
    return tasks.get(task_id).task.status.value


def test_what_is_ready_goes_to_its_owner_and_the_rest_waits(tasks_of: As, store: CoordinationStore) -> None:
    """A task with nothing open is sent at once; one that waits is neither sent nor claimed."""
    lead = tasks_of("lead")
    lead.add_all([task("a", acceptance=("make test",), text="carefully"), task("b", "a", owner="tester")])
    sent = said(store, "builder")
    assert [(one.task_id, one.body, one.acceptance) for one in sent] == [("a", "carefully", '["make test"]')]
    assert said(store, "tester") == []
    assert [one.task_id for one in tasks_of("builder").ready()] == ["a"]
    with pytest.raises(ConflictError, match="waits for a") as caught:
        tasks_of("tester").claim("b")
    assert code(caught) == "deps_blocked"


def test_the_last_completion_posts_exactly_one_message(tasks_of: As, store: CoordinationStore) -> None:
    """Row 30: with two dependencies the first completion says nothing, the last one once, read or not."""
    tasks_of("lead").add_all([task("a"), task("b"), task("c", "a", "b", owner="tester")])
    builder = tasks_of("builder")
    assert run(builder, "a") is TaskStatus.COMPLETED
    assert said(store, "tester") == []
    assert run(builder, "b") is TaskStatus.COMPLETED
    catch_up(store)
    assert [one.task_id for one in said(store, "tester")] == ["c"]
    with pytest.raises(ConflictError):
        run(builder, "b")
    assert len(said(store, "tester")) == 1


def test_a_claim_registers_the_job_under_the_key_of_its_run(tasks_of: As, store: CoordinationStore) -> None:
    """No job is there before, so that no pick passes by the dependencies; another run is another job."""
    tasks_of("lead").add(task("a", text="the words", retry_delays=(0,)))
    assert RecordStore(store.home).has_jobs() is False
    builder = tasks_of("builder")
    first = builder.claim("a").claimed.token.job_id
    record = RecordStore(store.home).get(first)
    assert (record.idempotency_key, record.instructions) == ("task:default:a:1", "the words")
    assert builder.fail("a", WORDS._replace(summary="no disk")).task.status is TaskStatus.PENDING
    second = builder.claim("a").claimed.token.job_id
    record = RecordStore(store.home).get(second)
    assert record.idempotency_key == "task:default:a:2"
    assert "no disk" in record.instructions
    assert "the words" in record.instructions
    assert builder.get("a").jobs == (first, second)
    assert len({one.thread_id for one in said(store, "builder")}) == 1


def test_a_failed_run_comes_back_later_and_the_last_one_ends_the_task(
    tasks_of: As, store: CoordinationStore, clock: ManualClock
) -> None:
    """Row 32: runs with growing delays (30 s, 2 min, and up to a fifth more), then failed with the reason."""
    tasks_of("lead").add(task("a"))
    builder = tasks_of("builder")
    waits = []
    for number in (1, 2, 3):
        builder.claim("a")
        after = builder.fail("a", WORDS._replace(summary=f"broken {number}")).task
        if number < 3:
            waits.append((after.not_before_ms - int(clock.now() * 1000)) / 1000)
            with pytest.raises(ConflictError) as caught:
                builder.claim("a")
            assert code(caught) == "not_expected"
            clock.advance(waits[-1] + 0.001)
    assert (after.status, after.reason) == (TaskStatus.FAILED, "broken 3")
    assert 30 <= waits[0] <= 36
    assert 120 <= waits[1] <= 144
    assert [one.outcome for one in builder.runs("a")] == ["failed"] * 3
    assert len(said(store, "builder")) == 3


def test_a_failure_that_no_retry_mends_ends_the_task_at_once(tasks_of: As) -> None:
    """`permanent` leaves no attempts; and a lead opens it again, at most three times without force."""
    lead, builder = tasks_of("lead"), tasks_of("builder")
    lead.add(task("a"))
    for _ in range(3):
        builder.claim("a")
        assert builder.fail("a", WORDS, permanent=True).task.status is TaskStatus.FAILED
        assert lead.retry("a").status is TaskStatus.PENDING
    builder.claim("a")
    builder.fail("a", WORDS, permanent=True)
    with pytest.raises(ConflictError, match="3 times"):
        lead.retry("a")
    assert lead.retry("a", force=True).redriven == 4


def test_a_lost_lease_brings_the_task_back_without_counting_as_a_failure(
    tasks_of: As, store: CoordinationStore, clock: ManualClock
) -> None:
    """The same job waits for its next attempt; the owner hears of it once; the old holder is fenced off."""
    tasks_of("lead").add(task("a"))
    first = tasks_of("builder", "life-1").claim("a", seconds=10)
    clock.advance(11)
    queue = JobQueue(RecordStore(store.home, clock=clock), warn=print)
    queue.reap()
    queue.close()
    catch_up(store)
    again = tasks_of("builder", "life-2")
    view = again.get("a")
    assert (view.task.status, view.task.failures, view.task.ready) == (TaskStatus.PENDING, 0, True)
    assert len(said(store, "builder")) == 2
    second = again.claim("a").claimed.token
    assert (second.job_id, second.attempt) == (first.claimed.token.job_id, 2)
    with pytest.raises(ConflictError) as caught:
        tasks_of("builder", "life-1").complete("a", WORDS, token=str(first.claimed.token))
    assert code(caught) == "lease_lost"
    assert again.complete("a", WORDS).task.status is TaskStatus.COMPLETED


@pytest.mark.parametrize(
    ("policy", "states"),
    [("wait", "pending pending"), ("fail", "failed failed"), ("skip", "cancelled cancelled")],
)
def test_a_failed_dependency_is_followed_by_policy_and_retry_brings_all_back(
    tasks_of: As, store: CoordinationStore, policy: str, states: str
) -> None:
    """Wait: stuck, and the lead hears of it; fail and skip go on through the graph; retry undoes both."""
    with store.changing() as change:
        agents.join(change, "lead", Joining("lead"))
    lead, builder = tasks_of("lead"), tasks_of("builder")
    lead.add_all(
        [
            task("a"),
            task("b", "a", on_failed_dependency=policy),
            task("c", "b", on_failed_dependency=policy),
        ]
    )
    builder.claim("a")
    builder.fail("a", WORDS, permanent=True)
    assert f"{status_of(lead, 'b')} {status_of(lead, 'c')}" == states
    assert lead.get("b").task.stuck == (policy == "wait")
    rows = store.rows("messages_after", {"after": 0, "limit": -1})
    assert sum(InboxMessage(*row).type == "alert" for row in rows) == 1
    lead.retry("a")
    assert [status_of(lead, one) for one in "abc"] == ["pending"] * 3
    assert not lead.get("b").task.stuck
    for one in "abc":
        assert run(builder, one) is TaskStatus.COMPLETED


def test_an_unknown_dependency_and_a_circle_are_refused_naming_the_path(tasks_of: As) -> None:
    """Row 30: nothing of such a plan is added."""
    lead = tasks_of("lead")
    with pytest.raises(InvalidInputError, match="a needs zz") as caught:
        lead.add(task("a", "zz"))
    assert code(caught) == "dependency_unknown"
    with pytest.raises(
        InvalidInputError, match=r"a -> b -> c -> a|b -> c -> a -> b|c -> a -> b -> c"
    ) as caught:
        lead.add_all([task("a", "b"), task("b", "c"), task("c", "a"), task("d", "a")])
    assert code(caught) == "dependency_cycle"
    assert sorted(caught.value.facts["cycle"]) == ["a", "b", "c"]  # type: ignore[call-overload]  # a list
    assert lead.graph() == []


def test_the_same_task_again_is_there_once_and_another_under_its_id_is_refused(tasks_of: As) -> None:
    """Adding is idempotent by id and content; a made id is the next number."""
    lead = tasks_of("lead")
    first, again = lead.add(task("a")), lead.add(task("a"))
    assert (first.duplicate, again.duplicate) == (False, True)
    with pytest.raises(ConflictError, match="title") as caught:
        lead.add(task("a")._replace(title="another"))
    assert code(caught) == "duplicate_id"
    assert [lead.add(NewTask("x")).view.task.task_id for _ in range(2)] == ["T2", "T3"]
    assert lead.add_all([task("z")], dry_run=True)[0].view.task.task_id == "z"
    with pytest.raises(NotFoundError):
        lead.get("z")


def test_done_with_review_waits_for_somebody_else(tasks_of: As, store: CoordinationStore) -> None:
    """Row 40: in_review; own approve 30; reject is a new job for the owner; then completed."""
    lead, builder, reviewer = tasks_of("lead"), tasks_of("builder"), tasks_of("ann")
    lead.add_all([task("a", reviewers=("ann",)), task("b", "a", owner="tester")])
    assert run(builder, "a") is TaskStatus.IN_REVIEW
    assert [one.type for one in said(store, "ann")] == ["review_request"]
    assert said(store, "tester") == []
    with pytest.raises(InvalidInputError) as caught:
        builder.review("a", approve=True)
    assert code(caught) == "forbidden"
    rejected = reviewer.review("a", approve=False, reason="no test")
    assert (rejected.status, rejected.failures) == (TaskStatus.PENDING, 0)
    back = said(store, "builder")[-1]
    assert (back.type, back.to) == ("review_result", ("builder",))
    assert "no test" in back.body
    assert run(builder, "a") is TaskStatus.IN_REVIEW
    assert len(builder.get("a").jobs) == 2
    assert said(store, "tester") == []
    assert reviewer.review("a", approve=True).status is TaskStatus.COMPLETED
    assert [one.task_id for one in said(store, "tester")] == ["b"]
    with pytest.raises(ConflictError):
        reviewer.review("a", approve=True)


def test_what_names_a_branch_is_approved_and_completed_when_it_is_merged(tasks_of: As) -> None:
    """Dependants wait for the merge as well."""
    lead, builder = tasks_of("lead"), tasks_of("builder")
    lead.add_all([task("a", review="required"), task("b", "a")])
    builder.claim("a")
    done = builder.complete("a", WORDS._replace(payload='{"branch": "fix/a"}')).task
    assert (done.status, done.branch) == (TaskStatus.IN_REVIEW, "fix/a")
    with pytest.raises(ConflictError):
        lead.merge("a")
    assert lead.review("a", approve=True).status is TaskStatus.APPROVED
    assert not lead.get("b").task.ready
    assert lead.merge("a").status is TaskStatus.COMPLETED
    assert lead.get("b").task.ready


def test_a_change_of_what_is_not_as_expected_is_refused(tasks_of: As) -> None:
    """Compare and set by the version; the refusal tells the present one."""
    lead, builder = tasks_of("lead"), tasks_of("builder")
    lead.add(task("a", review="required"))
    version = builder.get("a").task.version
    builder.claim("a", expect_version=version)
    for act in (
        lambda: builder.complete("a", WORDS, expect_version=version),
        lambda: builder.fail("a", WORDS, expect_version=version),
        lambda: lead.cancel("a", expect_version=version),
        lambda: lead.review("a", approve=True, expect_version=version),
        lambda: lead.retry("a", expect_version=version),
        lambda: lead.merge("a", expect_version=version),
    ):
        with pytest.raises(ConflictError, match="version") as caught:
            act()
        assert caught.value.facts["version"] == builder.get("a").task.version


def test_only_owner_creator_and_leads_may(tasks_of: As, store: CoordinationStore) -> None:
    """A stranger neither claims, completes, cancels nor retries; a person who joined may cancel."""
    with store.changing() as change:
        agents.join(change, "bob", Joining("person"))
    tasks_of("lead").add(task("a"))
    stranger = tasks_of("mallory")
    with pytest.raises(ConflictError) as caught:
        stranger.claim("a")
    assert code(caught) == "owner_mismatch"
    tasks_of("builder").claim("a")
    with pytest.raises(ConflictError) as caught:
        stranger.complete("a", WORDS)
    assert code(caught) == "owner_mismatch"
    for act in (stranger.cancel, stranger.retry, tasks_of("builder").cancel):
        with pytest.raises(InvalidInputError) as refused:
            act("a")
        assert code(refused) == "forbidden"
    assert tasks_of("bob").cancel("a", "not needed").status is TaskStatus.CANCELLED
    job = tasks_of("bob").get("a").jobs[-1]
    assert RecordStore(store.home).get(job).status is Status.CANCELLED


def test_a_task_is_cancelled_before_anybody_claims_it(tasks_of: As, store: CoordinationStore) -> None:
    """Its thread ends with it, by `tasks cancel` and by `inbox cancel`, and nobody claims it."""
    lead = tasks_of("lead")
    lead.add_all([task("a"), task("b")])
    assert lead.cancel("a").status is TaskStatus.CANCELLED
    thread_id = lead.get("b").task.thread_id
    ThreadWork(store, "lead", environ={}).cancel(thread_id, "enough")
    assert status_of(lead, "b") == "cancelled"
    for one in "ab":
        assert reading.thread_of(store, lead.get(one).task.thread_id).status == "cancelled"
        with pytest.raises(ConflictError) as caught:
            tasks_of("builder").claim(one)
        assert code(caught) == "already_terminal"
        assert lead.retry(one).status is TaskStatus.PENDING
        assert run(tasks_of("builder"), one) is TaskStatus.COMPLETED


def test_what_is_anybodys_goes_to_the_first_and_comes_back_to_its_worker(tasks_of: As) -> None:
    """Without an owner whoever claims has it; what is rejected is its worker's."""
    lead = tasks_of("lead")
    lead.add(task("a", owner="", review="required"))
    tasks_of("ann").claim_next()
    with pytest.raises(NoWorkError):
        tasks_of("bob").claim_next()
    with pytest.raises(ConflictError) as caught:
        tasks_of("bob").claim("a")
    assert code(caught) == "lease_conflict"
    tasks_of("ann").complete("a", WORDS._replace(from_agent="ann"))
    tasks_of("bob").review("a", approve=False, reason="no")
    with pytest.raises(ConflictError) as caught:
        tasks_of("bob").claim("a")
    assert code(caught) == "owner_mismatch"
    assert run(tasks_of("ann"), "a", agent="ann") is TaskStatus.IN_REVIEW


def test_a_task_that_ended_opens_for_the_plan_alone(tasks_of: As, store: CoordinationStore) -> None:
    """A request that somebody sends into the thread of a completed task is refused, not worked on."""
    lead = tasks_of("lead")
    lead.add(task("a"))
    run(tasks_of("builder"), "a")
    thread_id = lead.get("a").task.thread_id
    with pytest.raises(ConflictError) as caught:
        sending.send(
            store, NewMessage("lead", ("builder",), kind="task", thread_id=thread_id, summary="more")
        )
    assert code(caught) == "already_terminal"


def test_failed_tasks_are_dead_letters(tasks_of: As, store: CoordinationStore) -> None:
    """Row 32: listed with their reason, brought back and dropped, one or many; not what fell with them."""
    lead, builder = tasks_of("lead"), tasks_of("builder")
    lead.add_all([task("a"), task("b"), task("c", "a", on_failed_dependency="fail")])
    for one, why in (("a", "no disk"), ("b", "no network")):
        builder.claim(one)
        builder.fail(one, WORDS._replace(summary=why), permanent=True)
    assert [one.task_id for one in buried(store, Chosen()).tasks] == ["b", "a"]
    assert [one.task_id for one in buried(store, Chosen(reason="disk")).tasks] == ["a"]
    assert buried(store, Chosen(run_id="other")).tasks == []
    refused = raise_all(store, Chosen(), by="mallory", drop=True, force=False).refused
    assert [name for name, _ in refused] == ["b", "a"]
    assert failed_task(store, "a").reason == "no disk"
    dropped = raise_all(store, Chosen(reason="network"), by="lead", drop=True, force=False)
    assert [one.task_id for one in dropped.tasks] == ["b"]
    with pytest.raises(NotFoundError, match="not dead"):
        failed_task(store, "b")
    raised = raise_all(store, Chosen(), by="lead", drop=False, force=False)
    assert [one.task_id for one in raised.tasks] == ["a"]
    assert buried(store, Chosen()) == ([], [])
    assert [status_of(lead, one) for one in "abc"] == ["pending", "failed", "pending"]


def test_tasks_are_listed_by_state_and_owner(tasks_of: As) -> None:
    """What may be claimed is ready and not pending; an owner, what is stuck, and how many narrow it down."""
    lead = tasks_of("lead")
    lead.add_all([task("a"), task("b", "a", owner="tester"), task("c"), task("d", "c")])
    tasks_of("builder").claim("c")
    tasks_of("builder").fail("c", WORDS, permanent=True)

    def listed(**more: object) -> list[str]:
        return [view.task.task_id for view in lead.listed(**more)]  # type: ignore[arg-type]

    assert listed() == ["a", "b", "c", "d"]
    assert (listed(statuses=("ready",)), listed(statuses=("pending",))) == (["a"], ["b", "d"])
    assert (listed(statuses=("ready", "failed")), listed(stuck=True)) == (["a", "c"], ["d"])
    assert (listed(owner="tester"), listed(limit=2), listed(run_id="other")) == (["b"], ["a", "b"], [])
    assert lead.listed(owner="tester")[0].missing == ("a",)
