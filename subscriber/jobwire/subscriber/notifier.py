"""Notifying a person: a bell, and a command that is run beside the watch and never stops it."""

import contextlib
import os
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Self

from jobwire.core.errors import InvalidInputError
from jobwire.core.terminal_text import safe
from jobwire.subscriber.notifications import Notification

HOOK_SECONDS = 10.0
_WAITING = 64
_BELL = "\a"


def hook_words(text: str) -> list[str]:
    """Return the words of a command line as a shell splits them; raises InvalidInputError."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InvalidInputError(
            f"--exec {text!r} is not a command: {error}", hint="close the quotes"
        ) from error
    if not words or shutil.which(words[0]) is None:
        raise InvalidInputError(
            f"--exec: there is no command {words[0] if words else ''!r}",
            hint="it is run without a shell: name a program, or sh -c '...'",
        )
    return words


class Notifier:
    """Rings and runs the hook for each notification; on leaving, waits for the last ones, within limits.

    The hook gets JOBWIRE_EVENT, JOBWIRE_JOB, JOBWIRE_DETAIL and JOBWIRE_STATUS, no input, and
    `HOOK_SECONDS`; what it prints goes to our standard error. `warn` hears what goes wrong with it.
    """

    def __init__(
        self,
        *,
        hook: list[str] | None,
        bell: bool,
        environ: Mapping[str, str],
        warn: Callable[[str], None],
        hook_seconds: float = HOOK_SECONDS,
    ) -> None:
        self._hook = hook
        self._bell = bell
        self._environ = environ
        self._warn = warn
        self._seconds = hook_seconds
        self._waiting: queue.Queue[Notification | None] = queue.Queue(_WAITING)
        self._leave_at: float | None = None
        self._runner = threading.Thread(target=self._run, name="hook", daemon=True)

    @property
    def wanted(self) -> bool:
        """Tell whether there is anything to do for a notification."""
        return self._bell or self._hook is not None

    def __enter__(self) -> Self:
        if self._hook is not None:
            self._runner.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._hook is None:
            return
        # All that waits shares the time of one more hook.
        self._leave_at = time.monotonic() + self._seconds
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=self._seconds)
        self._runner.join()

    def tell(self, notification: Notification) -> None:
        """Tell of one notification; returns at once."""
        if self._bell and sys.stderr.isatty():
            sys.stderr.write(_BELL)
            sys.stderr.flush()
        if self._hook is not None:
            try:
                self._waiting.put_nowait(notification)
            except queue.Full:
                self._warn(
                    f"--exec was left out for job {notification.job_id}: {_WAITING} of its runs wait already"
                )

    def _run(self) -> None:
        while (notification := self._waiting.get()) is not None:
            left = self._seconds
            if self._leave_at is not None:
                left = min(left, self._leave_at - time.monotonic())
            if left <= 0:
                return self._warn(
                    f"--exec was left out for job {notification.job_id}: no time is left for it"
                )
            self._run_one(notification, left)
        return None

    def _run_one(self, notification: Notification, seconds: float) -> None:
        try:
            process = subprocess.Popen(
                self._hook or [],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
                env=self._variables(notification),
                start_new_session=True,
            )
        except OSError as error:
            return self._warn(f"--exec could not be run for job {notification.job_id}: {error.strerror}")
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return self._warn(f"--exec for job {notification.job_id} was ended after {seconds:.0f} s")
        if code:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            self._warn(f"--exec for job {notification.job_id} failed: {how}")
        return None

    def _variables(self, notification: Notification) -> dict[str, str]:
        # The attempt of the job that we may be running in is not this job's.
        inherited = {name: value for name, value in self._environ.items() if name != "JOBWIRE_ATTEMPT"}
        return {
            **inherited,
            "JOBWIRE_EVENT": notification.event,
            "JOBWIRE_JOB": notification.job_id,
            "JOBWIRE_DETAIL": safe(notification.detail),
            "JOBWIRE_STATUS": notification.status,
        }
