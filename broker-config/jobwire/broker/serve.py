"""`jobwire broker up`: a broker in the foreground until SIGTERM or SIGINT."""

import asyncio
import json
import logging
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from jobwire.broker.pid_file import remove_pid, write_pid
from jobwire.core.errors import JobwireError

if TYPE_CHECKING:
    from jobwire.broker.embedded import EmbeddedBroker

log = logging.getLogger("jobwire.broker")

SHUTDOWN_SECONDS = 10.0


def ready_line(*, host: str, port: int, home: Path, ca_certs: Path, pid: int, as_json: bool) -> str:
    """Return the one line that says where the broker accepts connections."""
    if as_json:
        body = {"ready": True, "host": host, "port": port, "ca_certs": str(ca_certs), "pid": pid}
        return json.dumps({**body, "home": str(home)})
    shown = f"[{host}]" if ":" in host else host
    return f"broker ready on {shown}:{port} (TLS 1.3, CA {ca_certs}, pid {pid})"


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
        write_pid(pid_file)
        on_ready()
        await stop.wait()
    finally:
        remove_pid(pid_file)
        await asyncio.wait_for(broker.stop(), SHUTDOWN_SECONDS)


def _reload(broker: "EmbeddedBroker") -> None:
    try:
        broker.reload()
    except JobwireError as error:
        log.error("not reloaded, the old files stay in force: %s", error)  # noqa: TRY400 - no traceback for people
    else:
        log.warning("files read again")
