"""`jobwire broker up`: a broker in the foreground until SIGTERM or SIGINT."""

import asyncio
import json
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


def ready_line(*, host: str, port: int, ca_certs: Path, pid: int, as_json: bool) -> str:
    """Return the one line that says where the broker accepts connections."""
    if as_json:
        return json.dumps({"ready": True, "host": host, "port": port, "ca_certs": str(ca_certs), "pid": pid})
    return f"broker ready on {host}:{port} (TLS 1.3, CA {ca_certs}, pid {pid})"


def run_embedded(broker: "EmbeddedBroker", *, pid_file: Path, on_ready: Callable[[], None]) -> None:
    """Run `broker` until SIGTERM or SIGINT; calls `on_ready` once it accepts connections. Blocks.

    SIGHUP reads the files again. `pid_file` holds this process's id meanwhile.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    # amqtt logs what our own modules say better; a refused client is no error of the broker.
    for name in ("amqtt", "transitions", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    write_private(pid_file, f"{own_pid()}\n")
    try:
        asyncio.run(_run(broker, on_ready))
    finally:
        pid_file.unlink(missing_ok=True)


async def _run(broker: "EmbeddedBroker", on_ready: Callable[[], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, _reload, broker)
    await broker.start()
    try:
        on_ready()
        await stop.wait()
    finally:
        await asyncio.wait_for(broker.stop(), SHUTDOWN_SECONDS)


def _reload(broker: "EmbeddedBroker") -> None:
    try:
        broker.reload()
    except JobwireError as error:
        log.error("not reloaded, the old files stay in force: %s", error)  # noqa: TRY400 - no traceback for people
    else:
        log.warning("files read again")


def send_reload(pid_file: Path) -> int:
    """Send SIGHUP to the broker whose id is in `pid_file` and return the id; raises NotFoundError."""
    hint = "start it with jobwire broker up, or reload the service: systemctl reload jobwire-broker"
    try:
        pid = int(pid_file.read_text(encoding="ascii"))
        os.kill(pid, signal.SIGHUP)
    except (OSError, ValueError) as error:
        raise NotFoundError(f"no running broker found through {pid_file}: {error}", hint=hint) from error
    return pid


def own_pid() -> int:
    """Return this process's id."""
    return os.getpid()
