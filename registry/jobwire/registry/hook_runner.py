"""A command of the user's own that is run beside our work, again and again, and never holds it up."""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

HOOK_SECONDS = 10.0
_WAITING = 64


class HookRunner:
    """Runs `words` with no input, one run at a time, each for `seconds` at most with all that it starts.

    What it prints goes to our standard error. `warn` hears what goes wrong with it, under the hook's `name`.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        name: str,
        environ: Mapping[str, str],
        seconds: float,
        warn: Callable[[str], None],
    ) -> None:
        self._words = list(words)
        self._name = name
        self._environ = environ
        self._seconds = seconds
        self._warn = warn
        # About what each run is, and the variables that it finds.
        self._waiting: queue.Queue[tuple[str, Mapping[str, str]] | None] = queue.Queue(_WAITING)
        self._leave_at = float("inf")
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    def run_soon(self, about: str, variables: Mapping[str, str]) -> None:
        """Run it with these variables when its turn comes; left out where too many wait. Returns at once."""
        try:
            self._waiting.put_nowait((about, variables))
        except queue.Full:
            self._warn(f"{self._name} was left out for {about}: {_WAITING} of its runs wait already")

    def close(self, seconds: float) -> None:
        """End when the present run has; all that waits shares these seconds."""
        self._leave_at = time.monotonic() + seconds
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=self._seconds)
        self._thread.join()

    def _main(self) -> None:
        while (run := self._waiting.get()) is not None:
            left = min(self._seconds, self._leave_at - time.monotonic())
            if left <= 0:
                self._warn(f"{self._name} was left out for {run[0]}: no time is left for it")
                return
            self._run(*run, left)

    def _run(self, about: str, variables: Mapping[str, str], seconds: float) -> None:
        try:
            process = subprocess.Popen(
                self._words,
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
                env={**self._environ, **variables},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            self._warn(f"{self._name} could not be run for {about}: {why}")
            return
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._warn(f"{self._name} for {about} was ended after {seconds:.0f} s")
            return
        if code:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            self._warn(f"{self._name} for {about} failed: {how}")
