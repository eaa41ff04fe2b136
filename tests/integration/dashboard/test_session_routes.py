"""Sessions over HTTP, on a real tmux server."""

import json
import sys
from pathlib import Path
from typing import Any

from jobwire.sessions.known_agents import InstructionsBy, KnownAgent
from jobwire.sessions.opening import NewSession, Opener
from jobwire.testing import new_home, wait_for
from jobwire.testing.dashboard_process import DashboardProcess

from .test_store_routes import get, post

_PROMPT = "import sys; print('<b>you</b>>', flush=True); sys.stdin.readline()"


def test_a_session_is_shown_stopped_and_brought_back(tmp_path: Path, tmux_server: str) -> None:
    """With the last lines of its pane and the command that attaches; ended only where actions are allowed."""
    home = new_home(tmp_path / "home")
    agent = KnownAgent("echo", InstructionsBy.LINE, "", "bye")
    words = [sys.executable, "-c", _PROMPT]
    Opener(str(home)).create(NewSession("work", agent, words, str(tmp_path), socket=tmux_server))

    def shown(server: DashboardProcess) -> Any:
        return get(server, "/api/sessions")["sessions"][0]

    with DashboardProcess(home) as server:
        wait_for(lambda: "<b>you</b>>" in shown(server)["lines"], what="the pane's line")
        found = shown(server)
        assert (found["name"], found["state"], found["alive"]) == ("work", "running", True)
        assert "attach" in found["attach"]
        assert _PROMPT not in json.dumps(found), "the command may hold secrets"
        assert post(server, "/api/act/session-stop", 403, name="work", how="hard")["error"]
    with DashboardProcess(home, "--allow-actions") as server:
        assert post(server, "/api/act/session-stop", 400, name="work", how="gently")["error"]
        assert post(server, "/api/act/session-stop", 404, name="nothing", how="hard")["error"]
        assert post(server, "/api/act/session-stop", name="work", how="hard")["state"] == "terminated"
        assert shown(server)["alive"] is False
        assert post(server, "/api/act/session-resume", name="work")["state"] == "running"
        assert shown(server)["alive"] is True
        post(server, "/api/act/session-stop", name="work", how="hard")
