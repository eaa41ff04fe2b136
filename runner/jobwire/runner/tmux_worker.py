"""A worker in a window of a tmux session."""

import contextlib
import os
import select
import signal
from collections.abc import Sequence
from pathlib import Path

from jobwire.runner.exit_status import ExitStatus
from jobwire.runner.tmux import Tmux


class TmuxWorker:
    """A worker in a window of a tmux session."""

    def __init__(
        self, tmux: Tmux, command: Sequence[str], *, session: str, title: str, directory: Path
    ) -> None:
        self.pane = tmux.open_window(session, title, command, directory=directory)
        # A descriptor of the process, not its number: numbers are used again (pidfd_open(2)).
        self._descriptor: int | None = None
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            self._descriptor = os.pidfd_open(self.pane.pid)

    def alive(self) -> bool:
        """Tell whether the pane's process still runs."""
        return not self.wait(0)

    def stop(self) -> None:
        """Send SIGTERM to the pane's process."""
        if self._descriptor is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGTERM)

    def wait(self, seconds: float) -> bool:
        """Wait for its end; a pidfd becomes readable then."""
        if self._descriptor is None:
            return True
        # Not select(): a process with many jobs has descriptors that it cannot name.
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def ending(self) -> ExitStatus | None:
        """Return None: only a parent learns it."""
        return None

    def close(self) -> None:
        """Let go of the process, which goes on; from now on it counts as ended."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
