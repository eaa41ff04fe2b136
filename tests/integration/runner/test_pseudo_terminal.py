"""The terminal of a command: what comes before it is there, or after it is gone, hurts nobody."""

import os
import socket
import subprocess
import sys

_WHOLE_LIFE = """
import os, sys
from jobwire.runner.pseudo_terminal import PseudoTerminal
from jobwire.core.clock import SystemClock

real, _ = os.openpty()
terminal = PseudoTerminal(real, stderr_apart=False, clock=SystemClock())
terminal.resize()
terminal.type(b"early")
process, streams = terminal.start(["true"])
process.wait()
terminal.close()
terminal.close()
# Whatever takes the next numbers must not get the keys.
files = [os.memfd_create("next") for _ in range(4)]
terminal.resize()
terminal.type(b"late")
sys.stderr.write(f"{[os.fstat(file).st_size for file in files]}")
"""


def ended(worker: str) -> "subprocess.CompletedProcess[bytes]":
    """Return how a worker's program ended: it leads a session, and has a person's side to show output to."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        return subprocess.run(
            [sys.executable, "-c", worker],
            stdout=theirs.fileno(),
            stderr=subprocess.PIPE,
            env=os.environ.copy(),
            start_new_session=True,
            check=False,
            timeout=60,
        )


def test_keys_and_sizes_outside_of_the_commands_life() -> None:
    """A key or a new size before the start or after the end goes nowhere, and not into another file."""
    done = ended(_WHOLE_LIFE)
    assert (done.returncode, done.stderr) == (0, b"[0, 0, 0, 0]")


_READS_AT_ONCE = """
import os, signal, sys
from jobwire.runner.pseudo_terminal import PseudoTerminal
from jobwire.core.clock import SystemClock

class LateTerminal(PseudoTerminal):
    def _give_foreground(self, group):
        if group != os.getpgrp():
            os.waitid(os.P_PGID, group, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        super()._give_foreground(group)

# As under tmux, or whatever starts its children so.
for number in (signal.SIGTTIN, signal.SIGTTOU):
    signal.signal(number, signal.SIG_IGN)
real, _ = os.openpty()
terminal = LateTerminal(real, stderr_apart=False, clock=SystemClock())
process, streams = terminal.start(["sh", "-c", "read x; echo got $x"])
terminal.type(b"typed\\n")
process.wait()
said = b""
while b"got" not in said or not said.endswith(b"\\n"):
    said += os.read(streams[0].source, 100)
sys.stderr.buffer.write(said)
terminal.close()
"""


def test_a_command_that_reads_before_it_has_the_foreground_is_made_to_wait() -> None:
    """However late the terminal is its own, its first question gets what is typed, not an empty answer."""
    done = ended(_READS_AT_ONCE)
    assert done.returncode == 0, done.stderr
    assert b"got typed" in done.stderr
