"""`jobwire demo`: certificates, a broker, the registry process, and three real jobs watched live."""

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from jobwire.broker.address import free_port
from jobwire.cli.demo_view import DemoView
from jobwire.cli.parts import require_metrics
from jobwire.core.boundary import INTERRUPTED
from jobwire.core.clock import SystemClock
from jobwire.core.errors import ConflictError, InvalidInputError, JobwireError
from jobwire.core.exit_codes import ExitCode
from jobwire.core.roles import Role
from jobwire.jobs.requests import Answer
from jobwire.registry.queue import JobQueue
from jobwire.registry.requests import give_answer
from jobwire.registry.store import RecordStore
from jobwire.runner.delegation import Delegation, Plan
from jobwire.storage.process import ManagedProcess
from jobwire.subscriber.outcome import EventLine, Line
from jobwire.subscriber.subscriber import watch_jobs
from jobwire.transport import load_settings

_MARKER = "made-by-jobwire-demo"
_START_SECONDS = 90.0
_END_SECONDS = 90.0
_WALL_SECONDS = 120.0
_SPARK_SECONDS = 120.0
_POLL_SECONDS = 0.25
# A person needs a moment to read the question before it is answered.
_ANSWER_AFTER_SECONDS = 1.5
_BROKER_VARIABLES = "MQTT_"
_ASKING = "tidy"


class DemoJob(NamedTuple):
    """One job of the demo and how it should end."""

    name: str
    title: str
    folder: Path
    exit_code: ExitCode


def run(args: argparse.Namespace) -> int:
    """Run the demo; every process that it started is gone when it returns."""
    home = _fresh(Path(args.directory))
    # A broker configured in this shell is not the demo's.
    environ = {name: value for name, value in os.environ.items() if not name.startswith(_BROKER_VARIABLES)}
    # A closed terminal or SIGTERM ends the demo in order, just as Ctrl-C does.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with ExitStack() as stack:
        try:
            demo = _kind(args)(home=home, source=Path(args.source).resolve(), environ=environ, stack=stack)
            return demo.run(stay=args.stay, metrics=not args.no_metrics, as_json=args.json)
        except KeyboardInterrupt:
            print("\ndemo: interrupted, ending what was started", file=sys.stderr)
            return INTERRUPTED


def _kind(args: argparse.Namespace) -> "type[Demo]":
    if not args.team:
        return Demo
    from jobwire.cli.demo_team import TeamDemo  # noqa: PLC0415 - it is made of this one

    return TeamDemo


def _fresh(directory: Path) -> Path:
    if directory.exists():
        if not (directory / _MARKER).exists():
            raise InvalidInputError(
                f"{directory} exists and was not made by the demo",
                hint="name another folder with --directory",
            )
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    (directory / _MARKER).touch()
    return directory / ".hermes"


class Demo:
    """The demo's parts, wired."""

    def __init__(self, *, home: Path, source: Path, environ: dict[str, str], stack: ExitStack) -> None:
        self._home = home
        self._environ = environ
        self._stack = stack
        self._clock = SystemClock()
        self._work = home.parent / "work"
        self._jobs = [
            DemoJob("survey", "compress a tree", source, ExitCode.OK),
            DemoJob("verify", "check 20 files", self._folder("verify"), ExitCode.JOB_ERROR),
            DemoJob(_ASKING, "delete old logs", self._folder(_ASKING), ExitCode.OK),
        ]

    def run(self, *, stay: bool, metrics: bool, as_json: bool) -> int:
        """Start everything, delegate, watch, and sum up."""
        up, ports = self._host(stay=stay)
        host = up.ready_line(_START_SECONDS)
        delegations = {job: self._delegate(job) for job in self._jobs}
        titles = {delegation.job_id: job.title for job, delegation in delegations.items()}
        expected = {delegation.job_id: int(job.exit_code) for job, delegation in delegations.items()}
        view = DemoView(titles, clock=self._clock, stream=sys.stderr if as_json else sys.stdout)
        spark = self._spark(view) if metrics else None
        view.say(f"broker on localhost:{ports[1]} (TLS 1.3); its files are in {self._home}")
        with view:
            self._watch(delegations, view)
        good = view.summary(expected)
        if spark is not None:
            self._metrics(view, spark)
        self._page(view, up, host, stay=stay)
        if as_json:
            print(json.dumps({"good": good, "jobs": [row._asdict() for row in view.rows.values()]}))
        return int(ExitCode.OK if good else ExitCode.JOB_ERROR)

    def _host(self, *, stay: bool) -> tuple[ManagedProcess, tuple[str, ...]]:
        """Start broker and registry process, with the page where it stays."""
        ports = "--port", str(free_port()), "--page-port", str(free_port())
        return self._background("up", "up", *ports, *([] if stay else ["--no-page"]), "--json"), ports

    def _spark(self, view: DemoView) -> ManagedProcess | None:
        """Start Spark beside the jobs, or say plainly why it cannot be."""
        try:
            require_metrics(self._environ)
        except JobwireError as error:
            view.say(f"metrics: left out: {error}")
            return None
        return self._background("metrics", "metrics", "run", "--json")

    def _metrics(self, view: DemoView, spark: ManagedProcess) -> None:
        """Show what Spark made of the journal, as soon as it has every event that was watched."""
        from jobwire.metrics.summary import summary_of  # noqa: PLC0415  optional, like Spark

        wanted = sum(row.events for row in view.rows.values())
        until = self._clock.monotonic() + _SPARK_SECONDS
        with view.waiting("metrics: Spark reads the journal"):
            while spark.alive() and self._clock.monotonic() < until:
                found = summary_of(self._home)
                if found is not None and sum(found["events"].values()) >= wanted:
                    break
                self._clock.sleep(_POLL_SECONDS)
            else:
                view.say(f"metrics: Spark gave no answer: {spark.tail(1)}")
                return
        view.metrics(found)

    def _page(self, view: DemoView, up: ManagedProcess, host: Mapping[str, object], *, stay: bool) -> None:
        """Keep the live page until Ctrl-C, or say how to open one."""
        page = host.get("page")
        if not stay or not isinstance(page, dict):
            view.say(f"the jobs on a page: {_command()} --home {self._home} dashboard")
            return
        view.say(f"the jobs on a page: {page['url']} (Ctrl-C ends it)")
        with contextlib.suppress(KeyboardInterrupt):
            while up.alive():
                up.wait(1.0)

    def _watch(self, delegations: dict[DemoJob, Delegation], view: DemoView) -> None:
        asking = next(d.job_id for job, d in delegations.items() if job.name == _ASKING)

        def on_line(line: Line) -> None:
            view.on_line(line)
            if isinstance(line, EventLine) and line.event.event == "permission_required":
                self._answer(asking, view)

        settings = load_settings(
            home=self._home, role=Role.HERMES, command_line={}, record={}, environ=self._environ
        )
        for delegation in delegations.values():
            delegation.start(environ=self._environ, directory=Path.cwd(), quiet=True)
        watch_jobs(
            jobs=[delegation.job_id for delegation in delegations.values()],
            home=self._home,
            settings=settings,
            timeouts={"wall_seconds": _WALL_SECONDS},
            on_line=on_line,
        )

    def _delegate(self, job: DemoJob) -> Delegation:
        command = [sys.executable, "-m", "jobwire.cli.demo_jobs", job.name, str(job.folder)]
        plan = Plan(command, title=job.title, answer_stdin=job.name == _ASKING)
        delegation = Delegation(RecordStore(self._home), plan)
        # In this order at the end: cancel what still runs, then wait for its worker.
        self._stack.callback(delegation.close)
        self._stack.callback(delegation.cancel, "the demo ended")
        return delegation

    def _answer(self, job_id: str, view: DemoView) -> None:
        """Answer the question as a person would: after a moment, from another thread."""

        def say_yes() -> None:
            # Whoever answers first, on the page or in a terminal, has answered.
            with contextlib.suppress(ConflictError):
                queue = JobQueue(RecordStore(self._home), warn=view.say)
                give_answer(queue, job_id, Answer("yes", "you", "demo"))

        timer = threading.Timer(_ANSWER_AFTER_SECONDS, say_yes)
        timer.daemon = True
        timer.start()

    def _background(self, name: str, *words: str, folder: Path | None = None) -> ManagedProcess:
        log = self._home.parent / "log" / f"{name}.log"
        home = self._home if folder is None else self._home.resolve()
        command = [sys.executable, "-m", "jobwire.cli.main", "--home", str(home), *words]
        return self._stack.enter_context(
            ManagedProcess(command, log=log, environ=self._environ, folder=folder, grace_seconds=_END_SECONDS)
        )

    def _folder(self, name: str) -> Path:
        folder = self._work / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def _command() -> str:
    """Return how `jobwire` is called here: by its path where the environment is not active."""
    if shutil.which("jobwire"):
        return "jobwire"
    program = Path(sys.executable).with_name("jobwire")
    here = Path.cwd()
    return str(program.relative_to(here) if program.is_relative_to(here) else program)
