"""`jobwire dashboard` as a real process: started, awaited, restarted on the same port, always ended."""

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

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
        self._process: subprocess.Popen[str] | None = None
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process

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
        self._process = subprocess.Popen(
            [*command, "--port", str(self.port), "--json", *self._options],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            code = self._process.wait(_STOP_SECONDS)
            raise AssertionError(f"the dashboard ended with {code}: {self.errors()}")
        self.link = str(json.loads(line)["url"])
        self.url = self.link.partition("?")[0]

    def errors(self) -> str:
        """Return what it wrote to stderr."""
        self._errors.seek(0)
        return self._errors.read()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it with a signal and return its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            return process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the dashboard ignored {number.name}: {self.errors()}") from None
        finally:
            if process.stdout:
                process.stdout.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            self._errors.close()
