"""A real `job_subscriber` process under observation, and a registry with jobs for it to watch."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from jobwire.core.lease import LeaseGrant
from jobwire.jobs.record import JobRecord, Timeouts
from jobwire.publisher import Publisher
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.testing.waiting import wait_for

_START = "from jobwire.subscriber.cli import main; raise SystemExit(main())"


def bare_environment(**more: str) -> dict[str, str]:
    """Return this environment without what a person configured for jobwire, and with `more`."""
    own = ("MQTT_", "JOBWIRE_")
    return {name: value for name, value in os.environ.items() if not name.startswith(own)} | more


class JobHouse:
    """The registry at `home`: registers, claims and cancels jobs, and speaks as their workers."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = RecordStore(home)
        self.queue = JobQueue(self.store, warn=lambda _: None)

    def register(self, *, title: str = "", timeouts: Timeouts = Timeouts(), **fields: object) -> str:  # noqa: B008 - immutable
        """Return the id of a new pending job."""
        spec = JobSpec(title=title, timeouts=timeouts)._replace(**fields)  # type: ignore[arg-type]  # by name
        return self.queue.register(spec).record.job_id

    def record(self, job_id: str) -> JobRecord:
        """Return the record as it is."""
        return self.store.get(job_id)

    def claim(self, job_id: str, owner: str = "test") -> JobRecord:
        """Claim this very job, whatever else is waiting."""
        return self.queue.claim(job_id, LeaseGrant(owner))

    def worker(self, job_id: str) -> Publisher:
        """Return a worker of the job; one try at the broker, so that tests need not wait."""
        return Publisher(job_id, home=self.home, attempts=1, environ=bare_environment())


class Watcher:
    """A running `job_subscriber`; a context manager that leaves no process behind."""

    def __init__(self, home: Path | None, *words: str, environ: Mapping[str, str] | None = None) -> None:
        place = [] if home is None else ["--home", str(home)]
        self._folder = tempfile.TemporaryDirectory(prefix="jobwire-watcher-")
        self.out = Path(self._folder.name, "out")
        self.err = Path(self._folder.name, "err")
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _START, *place, *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=bare_environment() if environ is None else dict(environ),
                start_new_session=True,
            )

    def lines(self) -> list[dict[str, Any]]:
        """Return the JSON lines on stdout so far."""
        raw = self.out.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in raw if line.endswith("\n")]

    def events(self) -> list[tuple[int, str]]:
        """Return (seq, event) of the events so far."""
        return [(line["seq"], line["event"]) for line in self.lines() if "event" in line]

    def verdicts(self) -> dict[str, str]:
        """Return the verdicts so far by job id; two for one job are an error."""
        found = [(line["job_id"], line["verdict"]) for line in self.lines() if "verdict" in line]
        if len(dict(found)) != len(found):
            raise AssertionError(f"a job has two verdicts: {found}")
        return dict(found)

    def errors(self) -> str:
        """Return stderr so far."""
        return self.err.read_text()

    def wait_for_event(self, seq: int, *, deadline_seconds: float = 60.0) -> None:
        """Wait until the event `seq` is printed."""
        wait_for(
            lambda: seq in [number for number, _ in self.events()] or self._ended(),
            deadline_seconds=deadline_seconds,
            what=f"event {seq}",
        )

    def wait_for_error(self, text: str, *, deadline_seconds: float = 60.0) -> None:
        """Wait until stderr holds `text`."""
        wait_for(lambda: text in self.errors() or self._ended(), deadline_seconds=deadline_seconds, what=text)

    def wait_until_watching(self) -> Self:
        """Wait until the broker has granted its subscriptions, and return the watcher."""
        self.wait_for_error("watching ")
        return self

    def wait(self, deadline_seconds: float = 60.0) -> int:
        """Return the exit code; raises AssertionError with both outputs if it does not end in time."""
        try:
            return self.process.wait(deadline_seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"job_subscriber still runs: {self.out.read_text()}\n{self.errors()}"
            ) from None

    def interrupt(self) -> None:
        """Send SIGINT, as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)

    def _ended(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(
                f"it ended with {self.process.returncode}: {self.out.read_text()}\n{self.errors()}"
            )
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._folder.cleanup()
