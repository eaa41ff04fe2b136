"""A process that has loaded what a worker needs, and becomes one at a word: a fork instead of a start.

    autopilot ── spec, the command's input, locks ──► nursery ── fork ──► worker, in a session of its own
              ◄─────── a descriptor of it (pidfd) ───

It has one thread and no connection of any kind, so what it forks is a fresh worker (fork(2)). It ends when
whoever started it is gone; its workers go on.
"""

import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from jobwire.core.errors import StorageError
from jobwire.runner.worker_process import WorkerProcess
from jobwire.storage.process import Lifeline, ManagedProcess

_MODULE = "jobwire.runner.worker_nursery"
_MOST = 64 * 1024
_FDS = 16
# Loading may take a while on a machine that is busy.
_ANSWER_SECONDS = 60.0


class WorkerNursery:
    """The nursery as its user sees it; one thread at a time. Started when it is first needed."""

    def __init__(self) -> None:
        self._process: ManagedProcess | None = None
        self._socket: socket.socket | None = None

    def begin(self, spec: Path, *, stdin: int, kept: Sequence[int]) -> WorkerProcess:
        """Start a worker for a spec; it holds the descriptors `kept`. Raises StorageError."""
        if self._process is None or not self._process.alive():
            self.close()
            self._start()
        if self._socket is None:
            raise StorageError("no worker can be started", hint="try again")
        try:
            socket.send_fds(self._socket, [json.dumps(str(spec)).encode()], [stdin, *kept])
            said, descriptors, _, _ = socket.recv_fds(self._socket, _MOST, 1, socket.MSG_CMSG_CLOEXEC)
        except OSError as error:
            self.close()
            raise StorageError(f"no worker can be started: {error}", hint="try again") from error
        if said != b"begun" or not descriptors:
            self.close()
            raise StorageError("no worker can be started", hint="are there too many processes?")
        return WorkerProcess(descriptors[0])

    def close(self) -> None:
        """End it; what it started goes on. Idempotent."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.stop(signal.SIGKILL)
            self._process = None

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._process = ManagedProcess(
                    [sys.executable, "-m", _MODULE, str(theirs.fileno())],
                    log=subprocess.DEVNULL,
                    # Its socket ends with us.
                    lifeline=Lifeline.NONE,
                    keep=[theirs.fileno()],
                ).start()
            except OSError as error:
                ours.close()
                raise StorageError(f"no worker can be started: {error}", hint="try again") from error
        ours.settimeout(_ANSWER_SECONDS)
        self._socket = ours


def main() -> int:
    """Fork a worker for each spec that comes, until nobody asks any more."""
    from jobwire.runner import assigned, worker_main  # noqa: PLC0415 - whoever asks need not load them

    del assigned  # loaded is all that it is to be
    asked = socket.socket(fileno=int(sys.argv[1]))
    asked.set_inheritable(False)
    gc.freeze()
    while True:
        said, descriptors, _, _ = socket.recv_fds(asked, _MOST, _FDS, socket.MSG_CMSG_CLOEXEC)
        if not said:
            return 0
        _bury_the_ended()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                _become_worker(json.loads(said), descriptors[0], asked)
                status = worker_main.main()
            finally:
                # Not sys.exit: what the nursery has still to do at its end is not the worker's.
                os._exit(status)
        for descriptor in descriptors:
            os.close(descriptor)
        try:
            held = os.pidfd_open(pid)
        except OSError:
            asked.send(b"gone")
            continue
        socket.send_fds(asked, [b"begun"], [held])
        os.close(held)


def _bury_the_ended() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _become_worker(spec: str, stdin: int, asked: socket.socket) -> None:
    asked.close()
    os.setsid()
    os.dup2(stdin, 0)
    os.close(stdin)
    sys.argv = [_MODULE, spec]


if __name__ == "__main__":
    sys.exit(main())
