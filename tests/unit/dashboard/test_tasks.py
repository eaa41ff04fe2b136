"""Tasks as rows: their states, and until when they wait."""

from jobwire.coordination.tasks.states import Task, TaskStatus
from jobwire.coordination.tasks.stored import TaskView
from jobwire.dashboard.coordination.tasks import ORDER, task_row

NOW = 1_000_000
TASK = Task(
    "default", "T1", 1, "title", "", "ann", "", "", "normal", (), "none", (), 3, (30.0,), "wait", "lead", 0,
    "t-1",
)  # fmt: skip


def row(number: int, **changes: object) -> dict[str, object]:
    """Return the row of a task."""
    task = TASK._replace(number=number, task_id=f"T{number}")._replace(**changes)  # type: ignore[arg-type]
    return task_row(TaskView(task, ("T0",), ("T0",) if task.open_deps else ()), NOW)


def test_every_state_of_a_task_has_a_place() -> None:
    """No state that a task can have is left out of the order."""
    assert {str(status) for status in TaskStatus} <= set(ORDER)


def test_a_task_that_waits_for_its_next_try_says_until_when() -> None:
    """A delay counts while it lasts; then the task is ready."""
    waiting, over = row(1, not_before_ms=NOW + 5000), row(1, not_before_ms=NOW)
    assert (waiting["status"], waiting["not_before"]) == ("pending", (NOW + 5000) / 1000)
    assert (over["status"], over["not_before"]) == ("ready", 0.0)
