"""What an agent's hooks say in a job of a home, each call in the thread that makes it."""

import json
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any, Generic, TypeVar

from jobwire.hooks.desk import Desk, open_desk
from jobwire.hooks.handling import handle
from jobwire.hooks.kinds import kind_of
from jobwire.hooks.signs import Answered, Said
from jobwire.hooks.waking import wait_behind
from jobwire.jobs.record import JobRecord
from jobwire.jobs.requests import Answer, Request, open_requests
from jobwire.registry.queue import JobQueue
from jobwire.registry.requests import give_answer
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.testing.homes import new_home
from jobwire.testing.waiting import wait_for

T = TypeVar("T")
_SECONDS = 60.0


class HookedAgent:
    """An agent that has begun; `folder` is where it works and where its home and its user's are."""

    def __init__(self, folder: Path, *, kind: str = "claude", conversation: str = "c-1") -> None:
        self.folder = folder
        self.home = str(new_home(folder / ".hermes"))
        self.queue = JobQueue(RecordStore(self.home), warn=print)
        self.job_id = self.queue.register(JobSpec(title="try")).record.job_id
        self.conversation = conversation
        self.environ = {
            "HOME": str(folder / "user"),
            "JOBWIRE_HOME": self.home,
            "JOBWIRE_JOB": self.job_id,
            "JOBWIRE_AGENT": "builder",
        }
        self._kind = kind_of(kind)
        self.hook("SessionStart", source="startup")

    def own_settings(self, text: str) -> None:
        """Write the user's settings."""
        path = self.folder / "user" / ".config" / "jobwire" / "jobwire.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def hook(self, event: str, **fields: Any) -> Answered:
        """Run the hook that an agent stands still for."""
        return handle(self._desk(), self._said(event, fields))

    def behind(self, event: str, **fields: Any) -> str:
        """Run the hook behind a turn; return what wakes the agent."""
        return wait_behind(self._desk(), None, self._said(event, fields))

    def answer(self, request: Request, text: str) -> None:
        """Answer as a person does."""
        give_answer(self.queue, request.id, Answer(text, "somebody", "test"))

    def asked(self, count: int = 1) -> list[Request]:
        """Wait until so many requests are open, and return them."""
        wait_for(
            lambda: len(open_requests(self.record.requests)) == count,
            what=f"{count} open requests",
            deadline_seconds=_SECONDS,
        )
        return open_requests(self.record.requests)

    @property
    def record(self) -> JobRecord:
        """Return the job."""
        return self.queue.store.get(self.job_id)

    def events(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Return what was said: event, detail, data."""
        lines = Path(self.queue.store.log_dir(self.job_id), "events.ndjson").read_text().splitlines()
        found = [line["event"] for line in map(json.loads, lines) if line["kind"] == "event"]
        return [(one["event"], one["detail"], one["data"]) for one in found]

    def _desk(self) -> Desk:
        desk = open_desk(self._kind, self.environ)
        assert desk is not None  # noqa: S101 - it is in a job
        return desk

    def _said(self, event: str, fields: dict[str, Any]) -> Said:
        body = {"hook_event_name": event, "session_id": self.conversation, "cwd": str(self.folder), **fields}
        said = self._kind.read(body)
        assert said is not None  # noqa: S101 - a test asks for events that are known
        return said


class Aside(Generic[T]):
    """A call in a thread of its own: a hook that waits."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._results: list[T] = []
        self._thread = Thread(target=lambda: self._results.append(self._work()), daemon=True)
        self._thread.start()

    def result(self) -> T:
        """Wait for its end, and return what it returned."""
        self._thread.join(_SECONDS)
        assert self._results, "it did not end, or failed"  # noqa: S101 - tests' own
        return self._results[0]
