"""`jobwire broker up`: a broker in the foreground until SIGTERM or SIGINT."""

import asyncio
import json
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobwire.broker.embedded import EmbeddedBroker

SHUTDOWN_SECONDS = 10.0


def ready_line(*, host: str, port: int, ca_certs: Path, pid: int, as_json: bool) -> str:
    """Return the one line that says where the broker accepts connections."""
    if as_json:
        return json.dumps({"ready": True, "host": host, "port": port, "ca_certs": str(ca_certs), "pid": pid})
    return f"broker ready on {host}:{port} (TLS 1.3, CA {ca_certs}, pid {pid})"


def run_embedded(broker: "EmbeddedBroker", *, on_ready: Callable[[], None]) -> None:
    """Run `broker` until SIGTERM or SIGINT; calls `on_ready` once it accepts connections. Blocks."""
    # amqtt logs each refused client with a traceback at times; what matters is logged by our own modules.
    logging.getLogger("amqtt").setLevel(logging.ERROR)
    logging.getLogger("transitions").setLevel(logging.ERROR)
    asyncio.run(_run(broker, on_ready))


async def _run(broker: "EmbeddedBroker", on_ready: Callable[[], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await broker.start()
    try:
        on_ready()
        await stop.wait()
    finally:
        await asyncio.wait_for(broker.stop(), SHUTDOWN_SECONDS)


def own_pid() -> int:
    """Return this process's id."""
    return os.getpid()
