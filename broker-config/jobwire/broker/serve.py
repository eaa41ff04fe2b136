"""`jobwire broker up`: a broker in the foreground until SIGTERM or SIGINT, and whom a reload signals."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from jobwire.broker.files import write_private
from jobwire.core.errors import JobwireError, NotFoundError

if TYPE_CHECKING:
    from jobwire.broker.embedded import EmbeddedBroker

log = logging.getLogger("jobwire.broker")

SHUTDOWN_SECONDS = 10.0
_HINT = "start it with jobwire broker up, or reload the service: systemctl reload jobwire-broker"


def run_embedded(broker: "EmbeddedBroker", *, pid_file: Path, on_ready: Callable[[], None]) -> None:
    """Run `broker` until SIGTERM or SIGINT; calls `on_ready` once it accepts connections. Blocks.

    SIGHUP reads the files again. `pid_file` holds this process's id while it accepts connections.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    # amqtt logs what our own modules say better; a refused client is no error of the broker.
    for name in ("amqtt", "transitions", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    asyncio.run(_run(broker, pid_file, on_ready))


async def _run(broker: "EmbeddedBroker", pid_file: Path, on_ready: Callable[[], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, _reload, broker)
    await broker.start()
    try:
        # Not before: a second broker that finds the port taken must leave the first one's file alone.
        write_private(pid_file, f"{os.getpid()}\n")
        on_ready()
        await stop.wait()
    finally:
        _remove_pid(pid_file)
        await asyncio.wait_for(broker.stop(), SHUTDOWN_SECONDS)


def _reload(broker: "EmbeddedBroker") -> None:
    try:
        broker.reload()
    except JobwireError as error:
        log.error("not reloaded, the old files stay in force: %s", error)  # noqa: TRY400 - no traceback for people
    else:
        log.warning("files read again")


def _remove_pid(path: Path) -> None:
    # Another broker's stays.
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
