"""Tasks over HTTP: what needs somebody first, and what a person does about it."""

from pathlib import Path

from jobwire.coordination.message import NewMessage
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.tasks.new_task import NewTask
from jobwire.coordination.tasks.tasks import Tasks
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

        def manage(status: int, task: str, verb: str, version: int, reason: str = "") -> None:
            body = {"run": "default", "task": task, "verb": verb, "version": version, "reason": reason}
            assert post(server, "/api/task", status, **body)

        manage(409, "build", "approve", build["version"] + 1)
        manage(400, "build", "reject", build["version"])
        manage(400, "build", "praise", build["version"])
        manage(404, "nothing", "retry", 1)
        manage(200, "build", "approve", build["version"])
        test = get(server, "/api/tasks?run=default")["tasks"][0]
        assert (test["id"], test["status"]) == ("test", "ready")
        manage(200, "test", "cancel", test["version"], "not now")
        again = get(server, "/api/tasks?run=default&state=cancelled")["tasks"][0]
        manage(200, "test", "retry", again["version"])
        assert get(server, "/api/tasks?run=default")["counts"]["ready"] == 1
        assert server.errors() == ""
