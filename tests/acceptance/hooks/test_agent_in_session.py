"""A real Claude Code lives in a session: one job after another in one conversation, also after its end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobwire.testing.agent_programs import claude_environment, require_agent
from jobwire.testing.homes import new_home
from jobwire.testing.model_server import Says, ScriptedModel, Turn
from jobwire.testing.watching import bare_environment

pytestmark = pytest.mark.alone


def test_jobs_follow_each_other_in_one_conversation(tmux_server: str, tmp_path: Path) -> None:
    """Two jobs, the agent's end, and a third one that it remembers them in; no word of ours in any."""
    program = require_agent("claude")
    work = tmp_path / "work"
    work.mkdir()
    home = new_home(work / ".hermes")
    script: list[Turn] = []
    for name in ("first", "second", "third"):
        script += [Says(f"I did the {name}."), Says(f"completed: {name} done")]
    with ScriptedModel(*script) as model:
        environ = bare_environment(
            **claude_environment(tmp_path / "user", work, model.url),
            JOBWIRE_HOME=str(home),
            PATH=f"{program.parent}{os.pathsep}{os.environ['PATH']}",
            TERM="xterm-256color",
        )

        def jobwire(*words: str) -> str:
            command = [sys.executable, "-P", "-m", "jobwire.cli.main", *words]
            ran = subprocess.run(
                command, env=environ, cwd=work, capture_output=True, text=True, check=False, timeout=120
            )
            assert ran.returncode == 0, ran.stdout + ran.stderr
            return ran.stdout + ran.stderr

        def submit(text: str) -> str:
            return jobwire(
                "submit", "--agent", "claude", "--tmux-socket", tmux_server, "--agent-session", "s", text
            )

        assert "first done" in submit("do the first")
        assert "second done" in submit("do the second")
        jobwire("sessions", "stop", "s")
        jobwire("sessions", "resume", "s")
        assert "third done" in submit("do the third")
        said = json.dumps(model.requests[-1]["messages"])
        assert "do the first" in said
        assert "do the third" in said
        assert "publish_event" not in said
