"""Codex behind its own app-server: the pane and people elsewhere can answer, and a message wakes who is idle.

    python -m jobwire.hooks.codex_server codex …

The server listens in a folder that the user alone may enter, and Codex's sandbox keeps the agent's commands
from it. A Codex that has no such server is started as it is: its questions wait in its hook then, and nobody
can answer them at the pane.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobwire.core.errors import JobwireError
from jobwire.hooks.desk import ENV_HOLD, HELD, SERVED, open_desk
from jobwire.hooks.injection import codex_words, options_place
from jobwire.hooks.kinds import kind_of
from jobwire.hooks.raw_input import MAX_INPUT
from jobwire.storage.signals import delivered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import IO

LOG = "codex-server.log"
# It is there in a third of a second; a host may be busy.
START_SECONDS = 30.0
_LOOK_SECONDS = 0.02
_AGAIN_SECONDS = 1.0
_END_SECONDS = 5.0


def main() -> int:
    """Run Codex in this terminal, and return its exit code."""
    command, environ = sys.argv[1:], dict(os.environ)
    place = options_place("codex", command)
    program, own = command[:place], command[place:]
    with tempfile.TemporaryDirectory(prefix="jobwire-codex-") as folder, _log(environ, folder) as log:
        path = Path(folder) / "server.sock"
        with _served(program, path, {**environ, ENV_HOLD: SERVED}, log) as server:
            if server is None:
                held = {**environ, ENV_HOLD: HELD}
                return _in_this_terminal([*program, *codex_words(), *own], held)
            return _in_this_terminal([*program, "--remote", f"unix://{path}", *own], environ)


@contextmanager
def _log(environ: Mapping[str, str], folder: str) -> Iterator[IO[bytes]]:
    """Give the file of what nobody reads in the pane, beside the job's output."""
    with suppress(JobwireError):
        desk = open_desk(kind_of("codex"), environ)
        folder = desk.voice.folder if desk is not None else folder
    path = Path(folder) / LOG
    path.touch(0o600)
    with path.open("ab", buffering=0) as log:
        yield log


@contextmanager
def _served(
    program: Sequence[str], path: Path, environ: Mapping[str, str], log: IO[bytes]
) -> Iterator[subprocess.Popen[bytes] | None]:
    """Give the server that listens at `path`, with ours as its client; None where there is none."""
    words = [*program, *codex_words(), "app-server", "--listen", f"unix://{path}"]
    server = subprocess.Popen(words, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        connect = _connector(path)
        if connect is None or not _listens(server, path):
            server.terminate()
            yield None
            return

        def complain(text: str) -> None:
            with suppress(OSError, ValueError):  # full, or closed at the end
                log.write(f"jobwire: {' '.join(text.split())[:400]!a}\n".encode())

        over = threading.Event()
        work = threading.Thread(
            target=_be_a_client, args=(connect, environ, complain, over), name="codex-client", daemon=True
        )
        work.start()
        try:
            yield server
        finally:
            over.set()
    finally:
        server.terminate()
        try:
            server.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _connector(path: Path) -> Callable[[], Any] | None:
    """Return what connects to the server; None without the library that can."""
    try:
        from websockets.sync.client import unix_connect  # noqa: PLC0415 - of an extra
    except ModuleNotFoundError:
        return None
    return lambda: unix_connect(str(path), uri="ws://localhost/", max_size=MAX_INPUT, compression=None)


def _listens(server: subprocess.Popen[bytes], path: Path) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while not path.exists():
        if server.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _be_a_client(
    connect: Callable[[], Any],
    environ: Mapping[str, str],
    complain: Callable[[str], None],
    over: threading.Event,
) -> None:
    """Serve one connection after another; a question that comes between two stands at the pane."""
    from jobwire.hooks.codex_bridge import CodexBridge  # noqa: PLC0415 - the library is there

    while not over.is_set():
        try:
            with connect() as connection:
                CodexBridge(connection, environ, complain).run()
        except Exception as error:  # noqa: BLE001 - the pane goes on without us
            if not over.is_set():
                complain(f"{type(error).__name__}: {error}")
        over.wait(_AGAIN_SECONDS)


def _in_this_terminal(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the agent's own program, with the signals that end us; return its exit code as a shell says it."""
    pane = subprocess.Popen(words, env=environ)

    def pass_on(number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            pane.send_signal(number)

    actions = {number: partial(pass_on, number) for number in (signal.SIGTERM, signal.SIGHUP)}
    # A key of the terminal: the program has it too.
    with delivered({**actions, signal.SIGINT: lambda: None}):
        code = pane.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
