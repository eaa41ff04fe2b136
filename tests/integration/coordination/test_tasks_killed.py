"""A task's change crosses plan and job; stopped at every step of both, it happens once all the same."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from jobwire.coordination.marks import behind, catch_up
from jobwire.coordination.message import NewMessage
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.stored import InboxMessage
from jobwire.coordination.tasks.new_task import NewTask
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.core.errors import ConflictError, JobwireError
from jobwire.core.lease import LeaseGrant
from jobwire.jobs.lifecycle import Status
from jobwire.registry.queue import JobQueue, Registered
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.testing import ManualClock
from jobwire.testing.broken_disks import Crash, StoppingFiles
from jobwire.testing.memory import memory_directory
from jobwire.testing.stopping_store import StoppingStore

WORDS = NewMessage("builder", kind="result", id="op", summary="said")
_NEVER = 10_000


def as_agent(agent: str, store: CoordinationStore, stop_at: int = _NEVER) -> Tasks:
    """Return the tasks of an agent whose process is killed before that call of the file system."""
    tasks = Tasks(store, agent, environ={})
    files = StoppingFiles(stop_at=stop_at)
    tasks._work.records = RecordStore(store.home, clock=store.clock, files=files)
    return tasks


# What is done, by whom, what the task is after it, and how many messages its dependant has got then.
ACTS: dict[str, tuple[Callable[[Tasks], object], str, str, int]] = {
    "claim": (lambda tasks: tasks.claim("a"), "builder", "in_progress", 0),
    "complete": (lambda tasks: tasks.complete("a", WORDS), "builder", "completed", 1),
    "fail": (lambda tasks: tasks.fail("a", WORDS), "builder", "pending", 0),
    "fail_for_good": (lambda tasks: tasks.fail("a", WORDS, permanent=True), "builder", "failed", 0),
    "cancel": (lambda tasks: tasks.cancel("a", "enough"), "lead", "cancelled", 0),
}


def prepared(home: str, clock: ManualClock, verb: str) -> None:
    """Make a plan in which the act may be done."""
    store = CoordinationStore(home, clock=clock)
    lead = as_agent("lead", store)
    lead.add_all([NewTask("a", "a", owner="builder"), NewTask("b", "b", owner="tester", needs=("a",))])
    if verb != "claim":
        as_agent("builder", store).claim("a")
    store.close()


def stopped(home: str, clock: ManualClock, verb: str, *, call: int, commit: int) -> bool:
    """Tell whether the act was stopped: before that call of the file system, or after that commit."""
    store = StoppingStore(home, clock=clock, stop_after=commit)
    act, agent = ACTS[verb][:2]
    try:
        act(as_agent(agent, store, call))
    except Crash:
        return True
    finally:
        store.close()
    return False


def sent_to(store: CoordinationStore, agent: str) -> int:
    """Return how many requests an agent was sent."""
    rows = store.rows("messages_after", {"after": 0, "limit": -1})
    return sum(one.kind == "task" and agent in one.to for one in map(InboxMessage._make, rows))


def check(home: str, clock: ManualClock, verb: str) -> bool:
    """Let the next command finish what is left, do the act once more; tell whether it had been done."""
    store = CoordinationStore(home, clock=clock)
    catch_up(store)
    assert not behind(store)
    act, agent, after, unlocked = ACTS[verb]
    task = as_agent("lead", store).get("a").task
    done = task.status.value == after and (verb != "fail" or task.failures == 1)
    assert sent_to(store, "tester") == (unlocked if done else 0)
    if done:
        with contextlib.suppress(JobwireError):
            act(as_agent(agent, store))
    else:
        act(as_agent(agent, store))
    view = as_agent("lead", store).get("a")
    assert view.task.status.value == after
    assert len(view.jobs) == len(list(RecordStore(home).job_ids())) == 1
    assert RecordStore(home).get(view.jobs[0]).terminal == (verb != "claim")
    assert sent_to(store, "tester") == unlocked
    assert sent_to(store, "builder") == (2 if verb == "fail" else 1)
    assert view.task.failures == verb.startswith("fail")
    store.close()
    return done


@pytest.mark.parametrize("verb", sorted(ACTS))
def test_a_task_changes_once_whoever_is_killed_when(verb: str, tmp_path: Path) -> None:
    """Rows 29 and 30: the next command finishes it, or nothing was done; one unlock, one job, one failure."""
    clock = ManualClock()
    prepared(str(tmp_path), clock, verb)
    outcomes = set()
    for kind in ("call", "commit"):
        step, was_stopped = 0, True
        while was_stopped:
            step += 1
            with tempfile.TemporaryDirectory(dir=memory_directory()) as folder:
                home = str(shutil.copytree(tmp_path, Path(folder, "home")))
                numbers = {"call": _NEVER, "commit": _NEVER, kind: step}
                was_stopped = stopped(home, clock, verb, **numbers)
                outcomes.add(check(home, clock, verb))
        assert step > 1
    assert outcomes == {True, False} or verb == "claim"


def test_a_claim_that_crosses_a_cancellation_leaves_no_job_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job was registered when the task was cancelled: the claim is refused, and the job is cancelled."""
    clock = ManualClock()
    prepared(str(tmp_path), clock, "claim")
    store = CoordinationStore(str(tmp_path), clock=clock)
    builder, lead = as_agent("builder", store), as_agent("lead", store)
    register = JobQueue.register

    def crossed(queue: JobQueue, spec: JobSpec, grant: LeaseGrant | None = None) -> Registered:
        registered = register(queue, spec, grant)
        lead.cancel("a")
        return registered

    with monkeypatch.context() as patch:
        patch.setattr(JobQueue, "register", crossed)
        with pytest.raises(ConflictError) as caught:
            builder.claim("a")
    assert caught.value.facts["code"] == "already_terminal"
    view = lead.get("a")
    assert view.task.status.value == "cancelled"
    assert RecordStore(str(tmp_path)).get(view.jobs[0]).status is Status.CANCELLED
    lead.retry("a")
    assert as_agent("builder", store).claim("a").task.status.value == "in_progress"
    store.close()
