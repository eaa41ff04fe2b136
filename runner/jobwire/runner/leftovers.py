"""What a worker that was killed left running: processes whose environment names its job."""

import os
import signal
from pathlib import Path

from jobwire.runner.message_command import RECEIPT

_PROC = Path("/proc")
_MAX_ENVIRONMENT = 1 << 20


def end_leftovers(folder: Path) -> int:
    """Kill what a worker started whose job keeps its files in `folder`; return how many processes that were.

    Known by where the receipt of a delivery goes, which no person's shell has in its environment. A process
    that left its session on purpose is found as well, another user's is not. Each is held by a descriptor
    while it is looked at (pidfd_open(2)), so that no stranger with its number is hit.
    """
    wanted = f"{RECEIPT}={folder.resolve()}/".encode()
    ended = 0
    for entry in os.scandir(_PROC):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            descriptor = os.pidfd_open(int(entry.name))
        except OSError:
            continue
        try:
            with (_PROC / entry.name / "environ").open("rb") as file:
                found = b"\0" + wanted in b"\0" + file.read(_MAX_ENVIRONMENT)
            if found:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                ended += 1
        except OSError:
            continue
        finally:
            os.close(descriptor)
    return ended
