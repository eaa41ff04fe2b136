"""The file with the id of the running broker: whom `jobwire broker reload` may signal."""

import os
import signal
from pathlib import Path

from jobwire.broker.files import write_private
from jobwire.core.errors import NotFoundError

_HINT = "start it with jobwire broker up, or reload the service: systemctl reload jobwire-broker"


def write_pid(path: Path) -> None:
    """Name this process as the running broker."""
    write_private(path, f"{os.getpid()}\n")


def remove_pid(path: Path) -> None:
    """Remove the file if it names this process: another broker's stays."""
    try:
        if _read(path) == os.getpid():
            path.unlink()
    except (OSError, ValueError):
        return


def send_reload(path: Path) -> int:
    """Send SIGHUP to the broker whose id is in `path` and return the id; raises NotFoundError.

    After a crash the id may be another program's by now, which SIGHUP would end: only a broker is signalled.
    """
    try:
        pid = _read(path)
        if pid <= 1 or not _is_broker(pid):
            raise NotFoundError(f"{path} names {pid}, which is not a running broker", hint=_HINT)
        os.kill(pid, signal.SIGHUP)
    except (OSError, ValueError) as error:
        raise NotFoundError(f"no running broker found through {path}: {error}", hint=_HINT) from error
    return pid


def _read(path: Path) -> int:
    return int(path.read_text(encoding="ascii"))


def _is_broker(pid: int) -> bool:
    """Tell by its command line (proc(5)) whether a process is Mosquitto or `jobwire broker up`."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return os.path.basename(words[0]) == b"mosquitto" or (b"broker" in words and b"up" in words)  # noqa: PTH119 - bytes
