"""A worker in a window of a tmux session."""

import os
from collections.abc import Sequence
from pathlib import Path

from jobwire.runner.tmux import Tmux
from jobwire.runner.worker_process import PidfdWorker


class TmuxWorker(PidfdWorker):
    """A worker in a window of a tmux session: the process of the window's pane."""

    def __init__(
        self, tmux: Tmux, command: Sequence[str], *, session: str, title: str, directory: Path
    ) -> None:
        self.pane = tmux.open_window(session, title, command, directory=directory)
        try:
            descriptor = os.pidfd_open(self.pane.pid)
        except ProcessLookupError:
            descriptor = -1  # it has ended already
        super().__init__(descriptor)
