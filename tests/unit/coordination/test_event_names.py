"""Under which names somebody may wait for an event."""

import pytest

from jobwire.coordination.waiting import event_names


def _row(
    event_type: str,
    message: tuple[str, str] | None = None,
    *,
    task: str = "",
    thread: str = "t1",
    summary: str = "",
) -> list[object]:
    kind, payload = message or (None, None)
    said = "m1" if message else None
    return [7, "default", task, thread, "a", event_type, said, summary, "{}", "", kind, payload]


@pytest.mark.parametrize(
    ("row", "names"),
    [
        (_row("message", task="T7", message=("TASK_COMPLETE", "{}")), ["TASK_COMPLETE_T7"]),
        (_row("message", message=("TASK_FAILED", '{"task_id":"1.1"}')), ["TASK_FAILED_1.1"]),
        (_row("message", message=("PROGRESS", "not JSON")), ["PROGRESS_all", "PROGRESS_t1"]),
        (_row("message", message=("BLOCKED", '["a"]')), ["BLOCKED_all", "BLOCKED_t1"]),
        (_row("thread_done", task="T7"), ["thread_done_T7", "TASK_COMPLETE_T7"]),
        (
            _row("thread_failed"),
            ["thread_failed_all", "thread_failed_t1", "TASK_FAILED_all", "TASK_FAILED_t1"],
        ),
        (_row("FILE_UNLOCK", thread="", summary="src/a.py"), ["FILE_UNLOCK_src/a.py"]),
        (_row("agent_joined", thread=""), ["agent_joined_all"]),
    ],
)
def test_an_event_is_named_by_its_type_and_task(row: list[object], names: list[str]) -> None:
    """Type and task make the name; without a task it is everybody's, and its thread's."""
    assert list(event_names(*row)) == names
