"""A real coding agent at work in a tmux pane, on a job of a home beside it."""

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from jobwire.jobs.lifecycle import Status
from jobwire.jobs.requests import Answer, Request, open_requests
from jobwire.registry.queue import JobQueue
from jobwire.registry.requests import give_answer
from jobwire.registry.store import RecordStore
from jobwire.testing.homes import new_home
from jobwire.testing.run_command import newest_record
from jobwire.testing.waiting import wait_for
from jobwire.testing.watching import bare_environment

# Agents are programs of 240 MB, which take seconds to begin.
DEADLINE = 240.0
PROMPT = "please do the job"


class Delegated:
    """An agent at work in a pane, on a job of a home beside it."""

    def __init__(self, server: str, folder: Path) -> None:
        self._tmux = ["tmux", "-L", server]
        self.work = folder / "work"
        self.work.mkdir()
        self.user = folder / "user"
        self.home = new_home(self.work / ".hermes")
        self.queue = JobQueue(RecordStore(self.home), warn=lambda _: None)

    def start(
        self,
        agent: str,
        program: Path,
        environ: dict[str, str],
        *options: str,
        prompt: tuple[str, ...] = (PROMPT,),
    ) -> None:
        """Start the agent in a pane, as a job."""
        own = {**environ, "JOBWIRE_HOME": str(self.home), "JOBWIRE_AGENT": "builder"}
        jobwire = [sys.executable, "-P", "-m", "jobwire.cli.main", "run", *options, "--agent", agent]
        words = [*jobwire, "--", str(program), *prompt]
        script = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in own.items())
        (self.work / "start.sh").write_text(
            f"cd {shlex.quote(str(self.work))}\n{script}exec {shlex.join(words)}\n"
        )
        new = ["new-session", "-d", "-s", "agent", "-x", "120", "-y", "40", "bash"]
        subprocess.run(
            [*self._tmux, *new, str(self.work / "start.sh")],
            check=True,
            env=bare_environment(TERM="xterm-256color"),
        )

    @property
    def screen(self) -> str:
        """Return what stands in the pane."""
        words = [*self._tmux, "capture-pane", "-p", "-J", "-t", "agent"]
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout

    def shows(self, text: str) -> None:
        """Wait until the pane shows a text."""
        self._wait(lambda: text in self.screen, text)

    def press(self, *keys: str) -> None:
        """Press keys in the pane."""
        subprocess.run([*self._tmux, "send-keys", "-t", "agent", *keys], check=True)

    def request(self) -> Request:
        """Wait until something is asked, and return it."""
        found: list[Request] = []

        def is_open() -> bool:
            found[:] = self._open()
            return bool(found)

        self._wait(is_open, "a request")
        return found[0]

    def press_while(self, shown: str, *keys: str) -> None:
        """Press keys until the pane shows something else: a question that was just drawn may ignore them."""

        def gone() -> bool:
            if shown in self.screen:
                self.press(*keys)
                return False
            return True

        self._wait(gone, f"a pane without {shown!r}", step_seconds=1.0)

    def next_request(self, before: Request) -> Request:
        """Wait until that is closed and something else asked, and return it."""
        self._wait(lambda: before.id not in [one.id for one in self._open()], "the request closed")
        return self.request()

    def answer(self, text: str) -> None:
        """Answer what is asked, as a person elsewhere."""
        give_answer(self.queue, self.request().id, Answer(text, "somebody", "test"))

    def ends(self) -> tuple[str, str]:
        """Wait for the job's end; return its status and last words."""
        store = self.queue.store
        self._wait(lambda: any(store.job_ids()) and newest_record(self.home).terminal, "the job's end")
        record = newest_record(self.home)
        return str(record.status), record.detail

    def _open(self) -> list[Request]:
        jobs = self.queue.list(statuses=[Status.RUNNING], limit=2)
        return [one for job in jobs for one in open_requests(job.requests) if one.named]

    def _wait(self, fact: Callable[[], bool], what: str, *, step_seconds: float = 0.05) -> None:
        try:
            wait_for(fact, what=what, deadline_seconds=DEADLINE, step_seconds=step_seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.screen}") from error
