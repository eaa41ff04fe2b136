"""`jobwire submit`: work for the agent of a session, watched to its verdict."""

import argparse
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
from jobwire.core.bounds import MAX_INSTRUCTIONS
from jobwire.core.errors import JobwireError
from jobwire.core.roles import Role
from jobwire.core.settings import BrokerSettings
from jobwire.core.terminal_text import safe
from jobwire.jobs.record import Timeouts
from jobwire.registry.store import RecordStore
from jobwire.runner.detach import in_background
from jobwire.sessions.actions import chosen, read_text
from jobwire.sessions.known_agents import InstructionsBy
from jobwire.sessions.opening import NewSession, agent_of
from jobwire.sessions.submission import submission
from jobwire.sessions.taking import NewWork, Submission
from jobwire.subscriber.outcome import Outcome, Verdicts
from jobwire.subscriber.printer import LinePrinter
from jobwire.subscriber.subscriber import open_watch

# A broker that does not answer holds nothing up for longer.
_CONNECT_SECONDS = 0.5


def run(args: argparse.Namespace) -> int:
    """Submit and watch; return the exit code of SPEC section 6."""
    home = Path(args.home)
    settings = usable_settings(home, Role.HERMES)
    work = _work(args)
    job = submission(str(home), work)
    say = speaker(quiet=args.quiet, as_json=args.json)

    def body(begun: Callable[[], None] = lambda: None) -> int:
        leave = threading.Event()
        with heeding_signals(job, leave):
            job.register()
            say(f"job {job.job_id}: {safe(work.title)}")
            return _watched(args, job, settings, leave, begun)

    if not args.detach:
        return body()
    in_background(body)
    return said_in_background(job.job_id, RecordStore(home).log_dir(job.job_id), as_json=args.json)


def _work(args: argparse.Namespace) -> NewWork:
    from jobwire.coordination.sessions.inventory import Inventory  # noqa: PLC0415 - opens the store
    from jobwire.coordination.store import CoordinationStore  # noqa: PLC0415 - as above

    text = read_text(args.instructions, args.file, limit=MAX_INSTRUCTIONS)
    store = CoordinationStore(args.home)
    found = Inventory(store).find(args.agent_session)
    # With --detach a child goes on, which closes our files.
    store.close()
    directory = args.directory
    if found is not None and not (args.agent or args.agent_command):
        agent, words = agent_of(found), found.words
        directory = directory or found.directory
    else:
        agent, words = chosen(args, otherwise=InstructionsBy.STDIN)
    new = NewSession(
        args.agent_session,
        agent,
        words,
        directory or str(Path.cwd()),
        socket=args.tmux_socket,
        title=args.title,
        agent_id=args.agent_id,
    )
    limits = Timeouts(idle_seconds=args.idle_timeout, wall_seconds=args.wall_timeout)
    return NewWork(new, text, limits, args.wait)


def _watched(
    args: argparse.Namespace,
    job: Submission,
    settings: BrokerSettings,
    leave: threading.Event,
    begun: Callable[[], None],
) -> int:
    """Watch from before the pane is opened to the verdict."""
    failed: list[JobwireError] = []
    connected, stop = threading.Event(), leave

    def start() -> None:
        try:
            # The pane is made meanwhile; its process begins when we hear it.
            job.start(lambda: connected.wait(_CONNECT_SECONDS))
        except JobwireError as error:
            failed.append(error)
        else:
            begun()

    watch = open_watch(
        jobs=[job.job_id], home=Path(args.home), settings=settings, broker_required=False, stop=stop
    )
    printer = LinePrinter(sys.stderr, as_json=args.json)
    starting = threading.Thread(target=start, name="start", daemon=True)
    starting.start()
    batches = watch.batches()
    try:
        for batch in batches:
            if not args.quiet:
                printer.batch(batch)
            if watch.connected:
                connected.set()
    except JobwireError:
        job.cancel("it could no longer be watched")
        raise
    finally:
        batches.close()
        printer.finish()
        starting.join()
    if failed:
        raise failed[0]
    return _finish(args, job, watch.verdicts())


def _finish(args: argparse.Namespace, job: Submission, verdicts: Verdicts) -> int:
    if verdicts.interrupted:
        job.leave()
        return HUNG_UP
    verdict = verdict_of(job, verdicts)
    job.close()
    if verdict is not None and args.quiet:
        name_failure(verdict)
    if not args.quiet and not args.json:
        folder = RecordStore(Path(args.home)).log_dir(job.job_id)
        done = verdict is not None and verdict.outcome is Outcome.COMPLETED
        print(
            f"jobwire: job {job.job_id}: audit log {'' if done else 'and output '}in {folder}",
            file=sys.stderr,
        )
    return verdicts.exit_code
