"""Any sequence of what agents may do to a plan: the store agrees with a model of a few lines."""

import shutil
import tempfile

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from jobwire.coordination.marks import catch_up
from jobwire.coordination.message import NewMessage
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.tasks.new_task import POLICIES, NewTask
from jobwire.coordination.tasks.states import Task, TaskStatus
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.core.errors import JobwireError
from jobwire.core.override import override
from jobwire.testing.clock import ManualClock
from jobwire.testing.memory import memory_directory

_WORDS = NewMessage("w", kind="result", summary="said")
_LOST = {"failed", "cancelled"}


class Modelled:
    """A task as the model has it."""

    def __init__(self, needs: list[str], policy: str, *, reviewed: bool) -> None:
        self.needs, self.policy, self.reviewed = needs, policy, reviewed
        self.status, self.fallen_with, self.failures, self.sent = "pending", "", 0, 0


class Plan(RuleBasedStateMachine):
    """Adds, claims, ends, reviews, retries and cancels at random."""

    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.mkdtemp(dir=memory_directory())
        self.store = CoordinationStore(self.home, clock=ManualClock())
        self.lead = Tasks(self.store, "lead", environ={})
        self.worker = Tasks(self.store, "w", environ={})
        self.model: dict[str, Modelled] = {}

    @override
    def teardown(self) -> None:
        """Remove the home."""
        self.store.close()
        shutil.rmtree(self.home)

    @rule(data=st.data(), policy=st.sampled_from(POLICIES), reviewed=st.booleans())
    @precondition(lambda self: len(self.model) < 8)
    def add(self, data: st.DataObject, policy: str, reviewed: bool) -> None:
        """Add a task that needs some that are there."""
        name = f"t{len(self.model)}"
        needs = sorted(data.draw(st.sets(st.sampled_from(sorted(self.model) or [""]), max_size=3)) - {""})
        review = "required" if reviewed else "none"
        new = NewTask(name, name, owner="w", needs=tuple(needs), review=review, max_attempts=2)
        self.lead.add(new._replace(retry_delays=(0.0,), on_failed_dependency=policy))
        self.model[name] = Modelled(needs, policy, reviewed=reviewed)
        lost = [one for one in needs if self.model[one].status in _LOST]
        if lost and policy != "wait":
            self._lose(name, "failed" if policy == "fail" else "cancelled", lost[0])
        self._give([name])

    @rule(data=st.data(), deed=st.sampled_from(["complete", "fail", "permanent", "lapse"]))
    @precondition(lambda self: self.model)
    def work(self, data: st.DataObject, deed: str) -> None:
        """Claim a task and end it: refused where the model says that it is not ready."""
        name = data.draw(st.sampled_from(sorted(self.model)))
        one = self.model[name]
        ready = one.status == "pending" and self._open(name) == []
        assert self._is_done(lambda: self.worker.claim(name)) == ready
        if not ready:
            return
        if deed == "complete":
            self.worker.complete(name, _WORDS)
            one.status = "in_review" if one.reviewed else "completed"
            self._give([other for other in self.model if name in self.model[other].needs])
        elif deed == "lapse":
            job = self.worker.get(name).jobs[-1]
            self.worker._work.give_back(self.worker.claim(name).claimed.token, "given back")
            catch_up(self.store)
            assert self.worker.get(name).jobs[-1] == job
            one.sent += 1
        else:
            self.worker.fail(name, _WORDS, permanent=deed == "permanent")
            one.failures += 1
            if deed == "permanent" or one.failures == 2:
                self._lose(name, "failed", "")
            else:
                one.sent += 1

    @rule(data=st.data(), approve=st.booleans())
    @precondition(lambda self: any(one.status == "in_review" for one in self.model.values()))
    def review(self, data: st.DataObject, approve: bool) -> None:
        """Approve or reject what is in review; never by its worker."""
        waiting = sorted(name for name, one in self.model.items() if one.status == "in_review")
        name = data.draw(st.sampled_from(waiting))
        assert not self._is_done(lambda: self.worker.review(name, approve=True))
        self.lead.review(name, approve=approve, reason="why")
        self.model[name].status = "completed" if approve else "pending"
        if approve:
            self._give([other for other in self.model if name in self.model[other].needs])
        else:
            self.model[name].sent += 1

    @rule(data=st.data())
    @precondition(lambda self: self.model)
    def cancel(self, data: st.DataObject) -> None:
        """Cancel a task that is open."""
        name = data.draw(st.sampled_from(sorted(self.model)))
        may = self.model[name].status not in _LOST | {"completed"}
        assert self._is_done(lambda: self.lead.cancel(name)) == may
        if may:
            self._lose(name, "cancelled", "")

    @rule(data=st.data())
    @precondition(lambda self: self.model)
    def retry(self, data: st.DataObject) -> None:
        """Open a lost task again, with what fell with it."""
        name = data.draw(st.sampled_from(sorted(self.model)))
        one = self.model[name]
        may = one.status in _LOST and not self._lost_needs(name)
        assert self._is_done(lambda: self.lead.retry(name, force=True)) == may
        if may:
            self._give(self._open_again(name))

    @invariant()
    def the_store_agrees(self) -> None:
        """Status, readiness, what is stuck, and how often each was sent."""
        rows = self.store.rows("messages_after", {"after": 0, "limit": -1})
        sent: dict[str, int] = {}
        for row in rows:
            if row[13] == "task" and "w" in row[23]:
                sent[row[12]] = sent.get(row[12], 0) + 1
        for view in self.lead.graph():
            task: Task = view.task
            one = self.model[task.task_id]
            assert task.status == TaskStatus(one.status), task.task_id
            assert list(view.missing) == self._open(task.task_id)
            assert (task.open_deps, task.failed_deps) == (
                len(view.missing),
                len(self._lost_needs(task.task_id)),
            )
            assert task.fallen_with == one.fallen_with
            assert sent.get(task.task_id, 0) == one.sent, task.task_id

    def _open(self, name: str) -> list[str]:
        return [one for one in self.model[name].needs if self.model[one].status != "completed"]

    def _lost_needs(self, name: str) -> list[str]:
        return [one for one in self.model[name].needs if self.model[one].status in _LOST]

    def _give(self, names: list[str]) -> None:
        for name in names:
            one = self.model[name]
            if one.status == "pending" and not self._open(name):
                one.sent += 1

    def _lose(self, name: str, status: str, because: str) -> None:
        self.model[name].status, self.model[name].fallen_with = status, because
        todo = [name]
        while todo:
            lost = todo.pop(0)
            for other, one in self.model.items():
                if lost in one.needs and one.status == "pending" and one.policy != "wait":
                    one.status = "failed" if one.policy == "fail" else "cancelled"
                    one.fallen_with = lost
                    todo.append(other)

    def _open_again(self, name: str) -> list[str]:
        opened = [name]
        for back in opened:
            one = self.model[back]
            one.status, one.fallen_with, one.failures = "pending", "", 0
            for other, two in self.model.items():
                if two.status in _LOST and two.fallen_with == back:
                    if left := self._lost_needs(other):
                        two.fallen_with = left[0]
                    else:
                        opened.append(other)
        return opened

    @staticmethod
    def _is_done(act: object) -> bool:
        try:
            act()  # type: ignore[operator]  # a call of the store
        except JobwireError:
            return False
        return True


TestPlan = Plan.TestCase
TestPlan.settings = settings(
    max_examples=15, stateful_step_count=20, deadline=None, phases=[Phase.explicit, Phase.generate]
)
