"""Drives one job from registration to its end: what a person or an agent does around its worker.

A worker that was killed is started again the way the handbook says: `publish_event --flush` finishes
what was half done and tells the last seq that is the job's; the work goes on after it.
"""

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jobwire.core.exit_codes import ExitCode
from tests.faults.storm.acknowledged import Acknowledged
from tests.faults.storm.fleet import Child, Fleet, Kind
from tests.faults.storm.hosts import Hosts
from tests.faults.storm.plan import JobPlan, Voice
from tests.faults.storm.worker import word_of

_WORKER = Path(__file__).with_name("worker.py")
_BIN = Path(sys.executable).parent
# An event that was kept although nobody took it is success for the worker: the outbox has it.
_KEPT = {int(ExitCode.OK), int(ExitCode.UNREACHABLE)}
_PAUSE_SECONDS = 0.5
# So often a ticket's owner flushes before the storm is called stuck: some minutes.
_FLUSHES = 120


class StormError(Exception):
    """A process did what it must not do; the storm reports it and goes on."""


class Job(NamedTuple):
    """One registered job of the plan; `ticket` where its worker is on the other host."""

    plan: JobPlan
    job_id: str
    ticket: Path | None


class Driver:
    """Runs the workers of one job, one after the other, until all its events are said."""

    def __init__(
        self, job: Job, *, home: Path, fleet: Fleet, hosts: Hosts | None, acknowledged: Acknowledged
    ) -> None:
        self._job = job
        self._home = home
        self._fleet = fleet
        self._hosts = hosts
        self._acknowledged = acknowledged
        self._said = 0
        self._over = threading.Event()

    def run(self) -> None:
        """Say every event of the plan; raises StormError."""
        speak = self._command if self._by_command() else self._script
        while self._said < self._job.plan.events:
            if not speak():
                self._recover()
        # First this: a cancelled job's worker is stopped, and what it has not handed over stays with it.
        if self._job.ticket is not None:
            self._hand_over()
        if self._job.plan.ending == "cancelled":
            self._cancel()

    def _by_command(self) -> bool:
        return self._job.plan.voice in {Voice.COMMAND, Voice.TICKET_COMMAND}

    def _command(self) -> bool:
        """Say the next event with `publish_event`; False where it was killed."""
        seq, plan = self._said + 1, self._job.plan
        word = word_of(seq, plan.events, plan.ending)
        child = self._start(
            [str(_BIN / "publish_event"), *self._where(), *self._way(), "--event", word,
             "--detail", f"step {seq} of {plan.events}", "--data", f"step={seq}"]
        )  # fmt: skip
        return self._finished(child, _KEPT)

    def _script(self) -> bool:
        """Let worker.py say the rest; False where it was killed."""
        plan = self._job.plan
        options = ["--said", str(self._said), "--events", str(plan.events), "--ending", plan.ending]
        child = self._start([sys.executable, str(_WORKER), *self._where(), *self._way(), *options])
        return self._finished(child, {int(ExitCode.OK)})

    def _finished(self, child: Child, fine: set[int]) -> bool:
        """Note each whole line as it comes and wait for the end."""
        for line in self._lines(child):
            body = json.loads(line)
            if body["seq"] != self._said + 1:
                raise StormError(f"{self._job.job_id}: seq {body['seq']} after {self._said}")
            self._said = body["seq"]
            self._acknowledged.add(self._job.job_id, body["seq"])
        code = child.process.wait()
        if child.killed:
            return False
        if code not in fine:
            raise StormError(f"{self._job.job_id}: worker ended with {code}: {child.error_text()}")
        return True

    def _recover(self) -> None:
        """Finish what a kill left half done, and learn how far the job is."""
        body = None
        while body is None:
            body = self._flush()
        self._said = max(self._said, int(str(body["seq"])))
        # It is the job's, as the flush said: it must not be lost either.
        if self._said:
            self._acknowledged.add(self._job.job_id, self._said)

    def _flush(self) -> dict[str, object] | None:
        child = self._start([str(_BIN / "publish_event"), *self._where(), "--flush"])
        lines = list(self._lines(child))
        code = child.process.wait()
        if child.killed:
            return None
        if code not in _KEPT or not lines:
            raise StormError(f"{self._job.job_id}: flush ended with {code}: {child.error_text()}")
        body: dict[str, object] = json.loads(lines[-1])
        return body

    def _hand_over(self) -> None:
        """Flush until the registry has confirmed everything: without a record here nobody else can."""
        for _ in range(_FLUSHES):
            body = self._flush()
            if body is not None and body["waiting"] == 0 and body["delivered"]:
                return
            self._over.wait(_PAUSE_SECONDS)
        raise StormError(f"{self._job.job_id}: the registry never confirmed its last event")

    def _cancel(self) -> None:
        child = self._fleet.start(
            Kind.PUBLISHER,
            [str(_BIN / "jobwire"), "--home", str(self._home), "registry", "cancel", self._job.job_id],
        )
        if child.process.wait() and not child.killed:
            raise StormError(f"{self._job.job_id}: cancel failed: {child.error_text()}")
        if child.killed:
            self._cancel()

    def _where(self) -> list[str]:
        if self._job.ticket is not None:
            return ["--ticket", str(self._job.ticket)]
        return ["--home", str(self._home), "--job", self._job.job_id]

    def _way(self) -> list[str]:
        """Half of the workers beside the registry process hand over, the others connect by themselves."""
        direct = self._job.ticket is None and int(self._job.job_id, 16) % 2 == 1
        return ["--direct"] if direct else []

    def _start(self, command: list[str]) -> Child:
        if self._hosts is not None and self._job.ticket is not None:
            command = self._hosts.on_workers(command)
        return self._fleet.start(Kind.PUBLISHER, command, job_id=self._job.job_id, piped=True)

    @staticmethod
    def _lines(child: Child) -> Iterator[bytes]:
        """Yield each whole line as it is printed; a torn last one was never acknowledged."""
        if child.process.stdout is None:
            raise AssertionError("a publisher is started with a pipe")
        with child.process.stdout as stream:
            yield from (line for line in stream if line.endswith(b"\n"))
