"""What the commands that delegate have in common: settings tried first, signals heeded, words to a person."""

from __future__ import annotations

import json
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jobwire.core.boundary import report
from jobwire.core.errors import JobwireError
from jobwire.core.exit_codes import ExitCode
from jobwire.core.terminal_text import safe
from jobwire.runner.output_log import OUTPUT_FILE
from jobwire.storage.signals import delivered
from jobwire.transport import load_settings
from jobwire.transport.tls import build_context

if TYPE_CHECKING:
    import contextlib
    import threading
    from collections.abc import Callable

    from jobwire.core.roles import Role
    from jobwire.core.settings import BrokerSettings
    from jobwire.runner.delegation import Delegation
    from jobwire.sessions.taking import Submission
    from jobwire.subscriber.outcome import Verdict, Verdicts

# 128 + SIGHUP, as shells report it.
HUNG_UP = 129
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def usable_settings(home: Path, role: Role) -> BrokerSettings:
    """Return the settings of `role` with every file that they name tried; raises ConfigError.

    What can be known before anything runs is refused there. What only the broker can say, no or nothing
    at all, comes later and stops no command.
    """
    settings = load_settings(home=home, role=role, command_line={}, record={}, environ=os.environ)
    if settings.tls:
        build_context(settings)
    return settings


def speaker(*, quiet: bool, as_json: bool) -> Callable[[str], None]:
    """Return what says a line about the job to a person."""

    def say(text: str) -> None:
        if not quiet and not as_json:
            print(f"jobwire: {text}", file=sys.stderr)

    return say


def said_in_background(job_id: str, log_directory: str, *, as_json: bool) -> int:
    """Print what a job that goes on by itself is called, and where its output is; return 0."""
    log = str(Path(log_directory) / OUTPUT_FILE)
    print(json.dumps({"job_id": job_id, "output": log}) if as_json else job_id)
    return int(ExitCode.OK)


def name_failure(verdict: Verdict) -> None:
    """Say why the exit code is not 0, where no line about events did."""
    if verdict.exit_code:
        print(f"jobwire: {safe(verdict.sentence)}", file=sys.stderr)


def verdict_of(job: Delegation | Submission, verdicts: Verdicts) -> Verdict | None:
    """Return the job's verdict; a job that was watched for as long as it may run is cancelled."""
    verdict = verdicts.by_job.get(job.job_id)
    if verdict is not None and verdict.exit_code is ExitCode.TIMEOUT:
        job.cancel(verdict.reason)
    return verdict


def heeding_signals(
    job: Delegation | Submission, leave: threading.Event | None
) -> contextlib.AbstractContextManager[None]:
    """Let SIGINT, SIGTERM and SIGHUP cancel the job for the block; the watch then ends by itself.

    With `leave` SIGHUP sets that instead: what runs in a pane does not end with our terminal. A signal that
    was ignored when we began stays ignored: so nohup and a shell's background jobs want it.
    """
    heeded = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    actions: dict[signal.Signals, Callable[[], None]] = {
        number: partial(_cancel, job, f"cancelled by {number.name}") for number in heeded
    }
    if leave is not None and signal.SIGHUP in actions:
        actions[signal.SIGHUP] = leave.set
    return delivered(actions)


def _cancel(job: Delegation | Submission, cause: str) -> None:
    try:
        job.cancel(cause)
    except JobwireError as error:
        report(error, prog="jobwire", as_json=False)
