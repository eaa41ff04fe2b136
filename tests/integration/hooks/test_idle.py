"""An agent that has nothing to do is told of a message by the hook that waits behind its turn."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobwire.coordination.message import NewMessage
from jobwire.coordination.reading import message_of, ways_in
from jobwire.coordination.sending import send
from jobwire.coordination.store import CoordinationStore
from jobwire.hooks.injection import hook_words
from jobwire.hooks.main import WAKE
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.testing.homes import new_home
from jobwire.testing.waiting import wait_for
from jobwire.testing.watching import bare_environment

# A Python that starts beside many others.
SECONDS = 150
STOP = {"hook_event_name": "Stop", "stop_hook_active": True, "last_assistant_message": "completed: all done"}


class IdleAgent:
    """An agent whose job is done."""

    def __init__(self, folder: Path) -> None:
        self.home = new_home(folder / ".hermes")
        job_id = JobQueue(RecordStore(self.home), warn=print).register(JobSpec(title="try")).record.job_id
        self.mark = self.home / "logs" / job_id / "idle"
        self.environ = bare_environment(
            HOME=str(folder), JOBWIRE_HOME=str(self.home), JOBWIRE_JOB=job_id, JOBWIRE_AGENT="builder"
        )
        self.store = CoordinationStore(str(self.home))

    def hook(self, body: dict[str, object]) -> str:
        """Run one hook; return what it says."""
        given = json.dumps({"session_id": "c", "cwd": str(self.home), **body})
        words = hook_words("claude")
        ran = subprocess.run(words, input=given, env=self.environ, capture_output=True, text=True, check=True)
        assert not ran.stderr
        return ran.stdout

    @contextmanager
    def waits(self) -> Iterator[subprocess.Popen[str]]:
        """Give the hook that waits behind the turn, once it waits."""
        before = self.mark.read_bytes() if self.mark.exists() else b""
        words = [*hook_words("claude"), WAKE]
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environ, text=True
        ) as ran:
            try:
                assert ran.stdin is not None
                ran.stdin.write(json.dumps({"session_id": "c", **STOP}))
                ran.stdin.close()
                wait_for(
                    lambda: self.mark.exists() and self.mark.read_bytes() not in {b"", before},
                    what="the hook that waits",
                    deadline_seconds=SECONDS,
                )
                yield ran
            finally:
                ran.kill()

    def message(self, summary: str, *, kind: str = "event") -> str:
        """Send it a message; return its id."""
        told = NewMessage("lead", ("builder",), kind=kind, summary=summary)
        return send(self.store, told).message_id

    def way(self, message_id: str) -> dict[str, object]:
        """Return how the message went."""
        thread_id = message_of(self.store, message_id).thread_id
        return ways_in(self.store, thread_id)[message_id][0]


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[IdleAgent]:
    """Return an agent that has ended its job."""
    made = IdleAgent(tmp_path)
    made.hook({"hook_event_name": "SessionStart", "source": "startup"})
    made.hook(STOP)
    yield made
    made.store.close()


def test_a_message_wakes_it_and_is_done_at_its_next_hook(agent: IdleAgent) -> None:
    """It is told without a paste; `inbox show` says the way, and what confirmed it."""
    with agent.waits() as waiting:
        sent = agent.message("mind the gap")
        assert waiting.wait(SECONDS) == 2
        assert waiting.stderr is not None
        assert "mind the gap" in waiting.stderr.read()
    assert agent.way(sent) == {"agent_id": "builder", "way": "wake", "state": "told", "event": "Stop"}
    agent.hook({"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {}})
    assert agent.way(sent) == {"agent_id": "builder", "way": "wake", "state": "done", "event": "PostToolUse"}


def test_work_is_no_reason_to_wake_it(agent: IdleAgent) -> None:
    """A task waits to be claimed; a message that follows it wakes the agent."""
    with agent.waits() as waiting:
        agent.message("build it", kind="task")
        agent.message("mind the gap")
        assert waiting.wait(SECONDS) == 2
        assert waiting.stderr is not None
        said = waiting.stderr.read()
    assert "mind the gap" in said
    assert "build it" not in said


@pytest.mark.parametrize("later", ["prompt", "turn"])
def test_nobody_waits_behind_a_turn_that_is_not_the_last(agent: IdleAgent, later: str) -> None:
    """Given a prompt, or at the end of the next turn, the earlier hook ends without a word."""
    with agent.waits() as waiting:
        if later == "prompt":
            agent.hook({"hook_event_name": "UserPromptSubmit", "prompt": "go on"})
            assert waiting.wait(SECONDS) == 0
        else:
            with agent.waits() as second:
                assert waiting.wait(SECONDS) == 0
                agent.message("mind the gap")
                assert second.wait(SECONDS) == 2
