"""Real agents live in sessions: one job after another in one conversation, also after their end."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobwire.coordination.sessions.inventory import Inventory
from jobwire.coordination.store import CoordinationStore
from jobwire.hooks.scripted_agents import claude_environment, codex_environment
from jobwire.hooks.scripted_model import Says, ScriptedModel, Turn
from jobwire.registry.store import RecordStore
from jobwire.storage.process_life import ended_within
from jobwire.testing.agent_programs import require_agent
from jobwire.testing.delegated_agent import DEADLINE
from jobwire.testing.homes import new_home
from jobwire.testing.waiting import wait_for
from jobwire.testing.watching import bare_environment

# Ten starts of programs and a dozen commands in a test: minutes on a busy machine.
pytestmark = [pytest.mark.alone, pytest.mark.timeout(900)]
# A model that thinks for longer than any test.
THINKS = Says("too late", delay_seconds=3600.0)


class Session:
    """A session "s" of an agent, worked with as a person does: by commands."""

    def __init__(self, agent: str, model: ScriptedModel, server: str, folder: Path) -> None:
        program = require_agent(agent)
        self.agent = agent
        self.work = folder / "work"
        self.work.mkdir()
        self.home = new_home(self.work / ".hermes")
        own = {"claude": claude_environment, "codex": codex_environment}[agent]
        # A program is found by its name, as people start it.
        programs = folder / "bin"
        programs.mkdir()
        (programs / agent).symlink_to(program)
        self._server = server
        self._environ = bare_environment(
            **own(folder / "user", self.work, model.url),
            JOBWIRE_HOME=str(self.home),
            PATH=f"{programs}{os.pathsep}{os.environ['PATH']}",
            TERM="xterm-256color",
        )

    def jobwire(self, *words: str, code: int = 0) -> str:
        """Run a command, and return what it says."""
        command = [sys.executable, "-P", "-m", "jobwire.cli.main", *words]
        ran = subprocess.run(
            command,
            env=self._environ,
            cwd=self.work,
            capture_output=True,
            text=True,
            check=False,
            timeout=2 * DEADLINE,
        )
        assert ran.returncode == code, f"{ran.stdout}{ran.stderr}{self.screen}"
        return ran.stdout + ran.stderr

    def submit(self, text: str, *options: str) -> str:
        """Give the agent work, and return what is said of it."""
        where = ("--agent", self.agent, "--tmux-socket", self._server, "--agent-session", "s")
        return self.jobwire("submit", *where, *options, text)

    def begin(self, text: str) -> str:
        """Give the agent work, and return the job once its model has it."""
        return self.submit(text, "--detach").split()[-1]

    @property
    def screen(self) -> str:
        """Return what its pane shows."""
        words = ["tmux", "-L", self._server, "capture-pane", "-p", "-J", "-t", "=s:"]
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout

    def kill(self) -> None:
        """Kill the agent, as the system does where it has no memory left."""
        store = CoordinationStore(str(self.home))
        row = Inventory(store).get("s")
        store.close()
        os.kill(row.pid, signal.SIGKILL)
        assert ended_within(row.pid, row.life, DEADLINE)

    def status(self, job_id: str) -> tuple[str, str]:
        """Return a job's status and last words."""
        record = RecordStore(self.home).get(job_id)
        return str(record.status), record.detail


def remembered(model: ScriptedModel) -> str:
    """Return the conversation that the model was sent last."""
    return json.dumps(model.requests[-1].get("messages") or model.requests[-1].get("input"))


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_jobs_follow_each_other_in_one_conversation(agent: str, tmux_server: str, tmp_path: Path) -> None:
    """Two jobs, the agent's end, a third that it remembers them in, its death in a fourth, and a fifth."""
    script: list[Turn] = []
    for name in ("first", "second", "third"):
        script += [Says(f"I did the {name}."), Says(f"completed: {name} done")]
    with ScriptedModel(*script, THINKS, Says("I see."), Says("completed: fifth done")) as model:
        session = Session(agent, model, tmux_server, tmp_path)
        assert "first done" in session.submit("do the first")
        assert "second done" in session.submit("do the second")
        session.jobwire("sessions", "stop", "s")
        session.jobwire("sessions", "resume", "s")
        assert "third done" in session.submit("do the third")
        assert "do the first" in remembered(model)
        job_id = session.begin("do the fourth")
        wait_for(lambda: model.said("do the fourth"), what="the fourth", deadline_seconds=DEADLINE)
        session.kill()
        session.jobwire("sessions", "reconcile")
        # Whoever looks between the pane's end and the server's sees the pane alone.
        status, why = session.status(job_id)
        assert (status, why.startswith("session s: its pane is gone")) == ("error", True), why
        session.jobwire("sessions", "resume", "s")
        assert "fifth done" in session.submit("do the fifth")
        assert all(f"do the {name}" in remembered(model) for name in ("first", "third", "fifth"))
        assert not model.said("publish_event")


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_cancelled_job_interrupts_its_agent(agent: str, tmux_server: str, tmp_path: Path) -> None:
    """Its key ends the turn of the real program, which takes the next job then."""
    script = [Says("I did the first."), Says("completed: first done")]
    with ScriptedModel(*script, THINKS, Says("I see."), Says("completed: third done")) as model:
        session = Session(agent, model, tmux_server, tmp_path)
        assert "first done" in session.submit("do the first")
        job_id = session.begin("do the second")
        wait_for(lambda: model.said("do the second"), what="the second", deadline_seconds=DEADLINE)
        session.jobwire("registry", "cancel", job_id)
        session.jobwire("sessions", "reconcile")
        assert "third done" in session.submit("do the third", "--wait", "60")
        assert remembered(model).count("do the third") == 1
        # Codex keeps what was interrupted in the conversation, Claude puts it back into its prompt.
        assert ("do the second" in remembered(model)) is (agent == "codex")
