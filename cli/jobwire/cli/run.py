"""`jobwire run`: any command as a signed, recorded and watched job."""

import argparse
import contextlib
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from jobwire.cli.delegating import (
    HUNG_UP,
    heeding_signals,
    name_failure,
    said_in_background,
    speaker,
    usable_settings,
    verdict_of,
)
from jobwire.coordination.sessions.names import check_session_name
from jobwire.core.boundary import missing_library
from jobwire.core.errors import InvalidInputError, JobwireError
from jobwire.core.exit_codes import ExitCode
from jobwire.core.roles import Role
from jobwire.core.settings import BrokerSettings
from jobwire.jobs.record import Timeouts
from jobwire.registry.store import RecordStore
from jobwire.runner.delegation import Delegation, Plan
from jobwire.runner.detach import in_background
from jobwire.runner.output_log import OUTPUT_FILE
from jobwire.runner.terminal import Terminal, attended, job_control
from jobwire.runner.tmux import Pane, Tmux
from jobwire.storage.home_paths import HomePaths
from jobwire.storage.settings_file import mtls_port
from jobwire.subscriber.outcome import Line, Note, Outcome, Verdicts
from jobwire.subscriber.printer import LinePrinter
from jobwire.subscriber.subscriber import watch_jobs

_PASSWORD_VARIABLES = frozenset({"MQTT_USERNAME", "MQTT_PASSWORD", "MQTT_PASSWORD_FILE"})


def run(args: argparse.Namespace) -> int:
    """Delegate the command and watch it; return the exit code of SPEC section 6."""
    home = Path(args.home)
    timeouts = Timeouts(idle_seconds=args.idle_timeout, wall_seconds=args.wall_timeout)
    if args.answer_stdin and args.tmux is not None:
        raise InvalidInputError(
            "in a tmux pane the command's input is the pane", hint="leave out --answer-stdin, or --tmux"
        )
    if args.approve_remotely and args.agent is None:
        raise InvalidInputError("--approve-remotely is for an agent's questions", hint="add --agent NAME")
    plan = Plan(
        args.command,
        title=args.title,
        agent_session=args.agent_session,
        timeouts=timeouts,
        answer_stdin=args.answer_stdin,
    )
    settings = usable_settings(home, Role.HERMES)
    if not args.mtls:
        usable_settings(home, Role.WORKER)
    pane = _pane(args)
    job = Delegation(RecordStore(home), plan)
    say = speaker(quiet=args.quiet, as_json=args.json)
    say(f"job {job.job_id}: {job.record.title}")

    def work(begun: Callable[[], None] = lambda: None) -> int:
        leave = threading.Event()
        before_us = not args.detach and pane is None and not args.answer_stdin and attended()
        terminal = Terminal() if before_us else None
        with (
            terminal or contextlib.nullcontext(),
            heeding_signals(job, leave if pane else None),
            job_control(terminal, job.tell_worker),
        ):
            _start(args, job, home, pane, terminal)
            begun()
            try:
                return _watch(args, job, settings, leave, say)
            except JobwireError:
                # Whoever reads our exit code takes the command for not run: so it must not run on.
                job.cancel("it could no longer be watched")
                job.close()
                raise

    return _detach(args, job, work) if args.detach else work()


def _pane(args: argparse.Namespace) -> tuple[Tmux, str] | None:
    if args.tmux is not None:
        return Tmux(socket=args.tmux_socket), check_session_name(args.tmux)
    if args.tmux_socket is not None:
        raise InvalidInputError("--tmux-socket names the server of a session", hint="add --tmux SESSION")
    return None


def _start(
    args: argparse.Namespace,
    job: Delegation,
    home: Path,
    pane: tuple[Tmux, str] | None,
    terminal: Terminal | None,
) -> None:
    cause = "no certificate could be issued for it"
    try:
        environ = job_identity(home, job.job_id) if args.mtls else dict(os.environ)
        command = None
        if args.agent is not None:
            from jobwire.hooks.injection import injected  # noqa: PLC0415 - of agents only

            cause = "its agent could not be given our hooks"
            folder = Path(job.log_directory)
            own = injected(args.agent, args.command, environ, folder, approve_remotely=args.approve_remotely)
            command, environ = own
    except JobwireError:
        job.cancel(cause)
        raise
    job.start(tmux=pane, command=command, environ=environ, directory=Path.cwd(), terminal=terminal)
    if job.pane is not None:
        _note_session(args, job, job.pane)


def _note_session(args: argparse.Namespace, job: Delegation, pane: Pane) -> None:
    """Put the pane's session into the inventory. The job runs, and is found by its record, without it too."""
    from jobwire.sessions.once_a_job import note_run  # noqa: PLC0415 - for panes only

    try:
        note_run(
            args.home,
            pane.session,
            command=args.command,
            directory=str(Path.cwd()),
            pane=pane,
            job_id=job.job_id,
        )
    except JobwireError as error:
        print(f"jobwire: warning: not in the list of sessions: {error.message}", file=sys.stderr)


def _note_end(home: Path, session: str) -> None:
    """Let the inventory know that the session's command has ended."""
    from jobwire.sessions.reconciling import Reconciler  # noqa: PLC0415 - for panes only

    with contextlib.suppress(JobwireError):
        Reconciler(str(home)).run(session)


def _watch(
    args: argparse.Namespace,
    job: Delegation,
    settings: BrokerSettings,
    leave: threading.Event,
    say: Callable[[str], None],
) -> int:
    printer = LinePrinter(sys.stderr, as_json=args.json)

    def on_line(line: Line) -> None:
        # The worker in this terminal tells of the broker itself, once.
        if not args.quiet and (args.tmux or not isinstance(line, Note) or line.job_id):
            printer(line)

    verdicts = watch_jobs(
        jobs=[job.job_id],
        home=Path(args.home),
        settings=settings,
        on_line=on_line,
        broker_required=False,
        stop=leave,
    )
    printer.finish()
    if verdicts.interrupted:
        job.leave()
        return HUNG_UP
    for verdict in verdicts.by_job.values() if args.quiet else ():
        name_failure(verdict)
    return _finish(job, Path(args.home), verdicts, say)


def _detach(args: argparse.Namespace, job: Delegation, work: Callable[[Callable[[], None]], int]) -> int:
    """Let a process of its own start and watch the job: its limits hold as they do in the foreground."""
    try:
        in_background(work)
    except JobwireError:
        job.cancel("it could not be started in the background")
        raise
    return said_in_background(job.job_id, job.log_directory, as_json=args.json)


def job_identity(home: Path, job_id: str) -> dict[str, str]:
    """Return the worker's environment with a new client certificate that the broker confines to `job_id`.

    Raises NotFoundError or ConfigError where this home has no certificate authority or it cannot be used.
    """
    try:
        from jobwire.certs.authority import CertificateAuthority  # noqa: PLC0415  only --mtls needs cryptography

        issued = CertificateAuthority(HomePaths(home).certs).issue_job(job_id)
    except ModuleNotFoundError as error:
        raise missing_library(error, "broker") from error
    port = mtls_port(home)
    inherited = {name: value for name, value in os.environ.items() if name not in _PASSWORD_VARIABLES}
    return {
        **inherited,
        "MQTT_CERTFILE": str(issued.certfile.resolve()),
        "MQTT_KEYFILE": str(issued.keyfile.resolve()),
        **({"MQTT_PORT": str(port)} if port else {}),
    }


def _finish(job: Delegation, home: Path, verdicts: Verdicts, say: Callable[[str], None]) -> int:
    verdict = verdict_of(job, verdicts)
    own_word = verdict is not None and verdict.outcome in {Outcome.COMPLETED, Outcome.ERROR}
    ending = job.close(patient=own_word)
    if job.pane is not None:
        _note_end(home, job.pane.session)
    say(f"job {job.job_id}: output in {Path(job.log_directory) / OUTPUT_FILE}")
    if ending is not None and not ending.good and verdicts.exit_code == ExitCode.OK:
        # The job's word stands in its record; who reads our exit code asked for the command.
        print(
            f"jobwire: job {job.job_id} says it is completed, but its command ended: {ending.sentence}",
            file=sys.stderr,
        )
        return int(ExitCode.JOB_ERROR)
    return verdicts.exit_code
