"""`jobwire dashboard` as a real process: started, awaited, restarted on the same port, always ended."""

import json
import signal
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

from jobwire.storage.process import ManagedProcess
from jobwire.testing.ports import free_port

_STOP_SECONDS = 10.0


class DashboardProcess:
    """One server for `home` on a free loopback port; a context manager. `options` go to the command.

    `url` is the page's address, `link` the same with the token that opens it; `token` is "" where
    `--token-file` was given.
    """

    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        self.port = free_port()
        self.url = ""
        self.link = ""
        self._options = options
        self._process: ManagedProcess | None = None
        self._folder = tempfile.TemporaryDirectory()

    @property
    def pid(self) -> int:
        """Return its process id; raises RuntimeError while it does not run."""
        if self._process is None:
            raise RuntimeError("the dashboard does not run")
        return self._process.pid

    @property
    def token(self) -> str:
        """Return the token in the link."""
        return "".join(parse_qs(urlsplit(self.link).query).get("token", []))

    @property
    def authorization(self) -> str:
        """Return the header that lets a program in."""
        return f"Bearer {self.token}"

    def start(self) -> None:
        """Start it and wait for the line that says it is ready. Raises AssertionError with its errors."""
        command = [sys.executable, "-m", "jobwire.cli.main", "--home", str(self.home), "dashboard"]
        self._process = ManagedProcess(
            [*command, "--port", str(self.port), "--json", *self._options],
            log=Path(self._folder.name, "log"),
            piped=True,
            grace_seconds=_STOP_SECONDS,
        ).start()
        line = self._process.lines.readline()
        if not line:
            self._process.stop()
            raise AssertionError(f"the dashboard {self._process.how_it_ended()}: {self.errors()}")
        self.link = str(json.loads(line)["url"])
        self.url = self.link.partition("?")[0]

    def errors(self) -> str:
        """Return what it wrote to stderr."""
        return self._process.said() if self._process is not None else ""

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it with a signal and return its exit code."""
        if self._process is None:
            return 0
        if not self._process.stop(number):
            raise AssertionError(f"the dashboard ignored {number.name}: {self.errors()}")
        return self._process.wait() or 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            self._folder.cleanup()
