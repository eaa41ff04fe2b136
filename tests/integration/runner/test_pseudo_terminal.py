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


def test_keys_and_sizes_outside_of_the_commands_life() -> None:
    """A key or a new size before the start or after the end goes nowhere, and not into another file."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        done = subprocess.run(
            [sys.executable, "-c", _WHOLE_LIFE],
            stdout=theirs.fileno(),
            stderr=subprocess.PIPE,
            env=os.environ.copy(),
            start_new_session=True,
            check=False,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (0, b"[0, 0, 0, 0]")
