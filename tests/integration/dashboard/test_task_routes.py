"""Tasks over HTTP: what needs somebody first, and what a person does about it."""

import sqlite3
from pathlib import Path

from jobwire.coordination.message import NewMessage
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.tables import FILE
from jobwire.coordination.tasks.new_task import NewTask
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.dashboard.coordination.tasks import ORDER, task_page
from jobwire.testing import new_home
from jobwire.testing.dashboard_process import DashboardProcess

from .test_store_routes import HOSTILE, get, post

TITLE = "build " + HOSTILE.replace("\u202e", "")


def test_a_plan_is_shown_and_managed_by_a_person(tmp_path: Path) -> None:
    """A review is given, a task cancelled and retried; what was changed meanwhile is refused."""
    home = new_home(tmp_path / "home")
    store = CoordinationStore(str(home))
    news = [
        NewTask(TITLE, "build", owner="ann", review="required"),
        NewTask("test", "test", owner="ann", needs=("build",)),
    ]
    Tasks(store, "lead", environ={}).add_all(news)
    Tasks(store, "lead", environ={}).add(NewTask("alone", "alone", run_id="other"))
    ann = Tasks(store, "ann", environ={})
    token = str(ann.claim("build").claimed.token)
    ann.complete("build", NewMessage("ann", kind="result", summary="built"), token=token)
    store.close()
    with DashboardProcess(home, "--allow-actions") as server:
        assert get(server, "/api/tasks?run=other")["counts"]["ready"] == 1
        found = get(server, "/api/tasks?run=default")
        assert sorted(found["runs"]) == ["default", "other"]
        build, test = found["tasks"]
        assert (build["id"], build["status"], build["title"]) == ("build", "in_review", TITLE)
        assert (test["needs"], test["waits"]["on"]) == (["build"], "dependency")
        assert [one["id"] for one in get(server, "/api/tasks?run=default&state=pending")["tasks"]] == ["test"]

        def manage(status: int, task: str, verb: str, version: int, **more: object) -> None:
            body = {"run_id": "default", "task_id": task, "expect_version": version, **more}
            assert post(server, f"/api/act/task-{verb}", status, **body)

        manage(409, "build", "review", build["version"] + 1, approve=True)
        manage(400, "build", "review", build["version"], approve=False)
        manage(400, "build", "praise", build["version"])
        manage(404, "nothing", "retry", 1)
        unseen = {"task_id": "build", "approve": True}
        assert post(server, "/api/act/task-review", 400, **unseen)["error"], "as it was shown, or not at all"
        manage(200, "build", "review", build["version"], approve=True)
        test = get(server, "/api/tasks?run=default")["tasks"][0]
        assert (test["id"], test["status"]) == ("test", "ready")
        manage(200, "test", "cancel", test["version"], reason="not now")
        again = get(server, "/api/tasks?run=default&state=cancelled")["tasks"][0]
        manage(200, "test", "retry", again["version"])
        assert get(server, "/api/tasks?run=default")["counts"]["ready"] == 1
        assert server.errors() == ""


def test_a_long_list_begins_with_what_needs_somebody(tmp_path: Path) -> None:
    """Failed and stuck before reviews, those before work, what is over last; each as it was added."""
    home = new_home(tmp_path / "home")
    store = CoordinationStore(str(home))
    Tasks(store, "lead", environ={}).add_all([NewTask(f"T{n}", f"T{n}") for n in range(24)])
    states = {
        "completed": (4,),
        "cancelled": (5,),
        "in_progress": (0, 9),
        "in_review": (1,),
        "failed": (8, 3),
    }
    states["approved"] = (2,)
    with sqlite3.connect(home / FILE) as link:
        for status, numbers in states.items():
            for number in numbers:
                link.execute("UPDATE tasks SET status = ? WHERE task_id = ?", (status, f"T{number}"))
        link.execute("UPDATE tasks SET open_deps = 1 WHERE task_id IN ('T6', 'T7')")
        link.execute("UPDATE tasks SET failed_deps = 1 WHERE task_id = 'T7'")
        link.execute("UPDATE tasks SET not_before_ms = 2000 WHERE task_id IN ('T10', 'T11')")
        link.execute("UPDATE tasks SET not_before_ms = 2001 WHERE task_id = 'T11'")
    link.close()
    page = task_page(store, "", 2.0, state="")
    tasks = page["tasks"]
    assert isinstance(tasks, list)
    first = ["T3", "T8", "T7", "T1", "T2", "T0", "T9", "T10"]
    assert [one["id"] for one in tasks][: len(first)] == first
    assert [one["id"] for one in tasks][-4:] == ["T6", "T11", "T4", "T5"]
    shown = [one["status"] for one in tasks]
    assert shown == sorted(shown, key=ORDER.index)
    assert page["counts"] == {name: shown.count(name) for name in ORDER} | {"all": 24}
    assert (page["found"], page["more"]) == (24, False)
    some = task_page(store, "", 2.0, state="ready", limit=5)
    assert isinstance(some["tasks"], list)
    assert (len(some["tasks"]), some["found"], some["more"]) == (5, 13, True)
    assert task_page(store, "", 2.0, state="nothing")["found"] == 0
    store.close()
