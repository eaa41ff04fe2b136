"""The commands as a person runs them: `jobwire dashboard`, `jobwire top`, `jobwire status`."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobwire.testing.dashboard_process import DashboardProcess
from jobwire.testing.fleet_writer import FleetWriter
from jobwire.testing.requirements import require
from jobwire.testing.waiting import wait_for

STATES = ["waits for you", "running", "failed", "pending", "cancelled", "completed"]
JOBWIRE = [sys.executable, "-m", "jobwire.cli.main"]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[FleetWriter]:
    """Give a home directory with one job of every kind."""
    made = FleetWriter(tmp_path / "home")
    for title, event in (
        ("Wait", "permission_required"),
        ("Fail", "error"),
        ("Run", "progress"),
        ("End", "completed"),
    ):
        made.say(made.start(title, agent_session="docs"), event, f"{title} \x1b[31m\u202edetail")
    made.queue.cancel(made.start("Stop"))
    made.register("Later", agent_session="infra")
    yield made
    made.close()


def run(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `jobwire` and return what became of it."""
    return subprocess.run(
        [*JOBWIRE, "--home", str(home), *words], capture_output=True, text=True, timeout=60, check=False
    )


def test_status_line(writer: FleetWriter) -> None:
    """One line says what runs, who waits and what failed; --json says it to programs."""
    assert run(writer.home, "status", "--line").stdout == "1 running, 1 waits for you, 1 failed\n"
    short = run(writer.home, "status", "--line", "--failed-for", "0.001").stdout
    assert short == "1 running, 1 waits for you\n"
    assert run(writer.home, "status", "--line", "--failed-for", "0").returncode == 30
    assert json.loads(run(writer.home, "status", "--json").stdout) == {
        "running": 1,
        "waiting": 1,
        "failed": 1,
    }


def test_status_names_the_problems(writer: FleetWriter) -> None:
    """Without options the jobs that need somebody are listed first, on harmless lines."""
    lines = run(writer.home, "status").stdout.splitlines()
    assert lines[0] == "1 waits for you, 1 failed, 1 running, 1 pending, 2 done"
    assert [line[10:23].strip() for line in lines[1:]] == ["waits for you", "failed"]
    assert "\x1b" not in "".join(lines)


def test_status_line_loads_nothing_heavy(writer: FleetWriter) -> None:
    """A status bar asks every few seconds: no web, terminal or validation library is loaded for it."""
    run(writer.home, "status", "--line")
    program = (
        "import sys; from jobwire.cli.main import main; main(); "
        "print(*sorted(set(sys.modules) & {'pydantic', 'asyncio', 'starlette', 'uvicorn', 'textual', 'rich', "
        "'importlib.metadata', 'jobwire.registry.queue'}), file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, "--home", str(writer.home), "status", "--line"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stderr == "\n"


def test_top_once_as_text_and_json(writer: FleetWriter) -> None:
    """Into a pipe, `top` prints the fleet once, problems first, without a worker's control characters."""
    text = run(writer.home, "top").stdout
    assert [line[10:23].strip() for line in text.splitlines()[1:]] == STATES
    assert "\x1b" not in text
    assert "\u202e" not in text
    rows = [
        json.loads(line)
        for line in run(writer.home, "top", "--json", "--session", "infra").stdout.splitlines()
    ]
    assert [row["title"] for row in rows] == ["Later"]


class Terminal:
    """A program on a terminal of 80 by 24 characters: a tmux server of its own, whose screen is read."""

    def __init__(self, home: Path, *words: str) -> None:
        self._tmux = [require("tmux"), "-L", f"jobwire-test-{os.getpid()}", "-f", "/dev/null"]
        command = shlex.join([*JOBWIRE, "--home", str(home), *words])
        self._run(
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "24",
            f"unset COLUMNS; {command}; echo exit code $?; read end",
        )

    def press(self, *keys: str) -> None:
        """Type keys, by tmux's names for them."""
        self._run("send-keys", *keys)

    def resize(self, columns: int) -> None:
        """Make the terminal wider or narrower."""
        self._run("resize-window", "-x", str(columns), "-y", "24")

    def screen(self) -> str:
        """Return what is to be seen."""
        return self._run("capture-pane", "-p")

    def wait_for(self, text: str) -> str:
        """Return the screen once it shows `text`."""
        try:
            return wait_for(lambda: s if text in (s := self.screen()) else "", deadline_seconds=30)
        except AssertionError:
            raise AssertionError(f"no {text!r} on the screen:\n{self.screen()}") from None

    def close(self) -> None:
        """End the terminal and what runs on it."""
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)

    def _run(self, *words: str) -> str:
        return subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def terminal(writer: FleetWriter) -> Iterator[Terminal]:
    """Give a terminal that shows `jobwire top`."""
    made = Terminal(writer.home, "top")
    yield made
    made.close()


def test_top_in_a_small_terminal(writer: FleetWriter, terminal: Terminal) -> None:
    """At 80x24 and wider: all groups, live changes, filter by number and text, a job's history, and quit."""
    screen = terminal.wait_for("waits for you docs")
    lines = screen.splitlines()
    counts = "1 waits for you  0 stuck  1 failed  0 late  1 running  1 pending  2 done"
    assert lines[0].strip() == counts
    assert [line[9:23].strip() for line in lines[2:8]] == STATES
    assert "Quit" in terminal.wait_for("Quit").splitlines()[23]
    writer.start("Newcomer")
    terminal.wait_for("Newcomer")
    terminal.press("2")
    terminal.wait_for("[stuck: 0]")
    terminal.press("a")
    terminal.wait_for("Newcomer")
    terminal.press("/")
    terminal.press("newc")
    assert "waits for you docs" not in terminal.wait_for("[newc: 1]")
    terminal.press("Enter")
    # The line to type in is gone: the next key is the table's.
    wait_for(lambda: not any(line.strip() == "newc" for line in terminal.screen().splitlines()))
    terminal.press("Enter")
    terminal.wait_for("new -> pending")
    for key in ("/", "s", "1", "p"):
        terminal.press(key)  # the table's keys do nothing to what is not seen
    terminal.press("q")
    terminal.wait_for("[newc: 1]")
    terminal.resize(120)
    assert "age" in terminal.wait_for("age")
    terminal.press("q")
    terminal.wait_for("exit code 0")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_dashboard_ends_cleanly(writer: FleetWriter, number: signal.Signals) -> None:
    """It prints its address, serves, and ends with exit code 0 on a signal, with an open page as well."""
    with DashboardProcess(writer.home) as server:
        assert server.url == f"http://127.0.0.1:{server.port}/"
        with urllib.request.urlopen(f"{server.url}api/stream", timeout=20) as page:  # noqa: S310 - our own server
            page.readline()
            begun = time.monotonic()
            assert server.stop(number) == 0
            assert time.monotonic() - begun < 5
            page.read()
        assert server.errors() == ""


def test_dashboard_refuses_what_is_not_safe(writer: FleetWriter, tmp_path: Path) -> None:
    """Beyond loopback it does not start without TLS or secret, and says what to do."""
    answer = run(writer.home, "dashboard", "--host", "0.0.0.0", "--port", "0")  # noqa: S104 - what is tested
    assert answer.returncode == 30
    assert "TLS" in answer.stderr
    assert "hint:" in answer.stderr
    pem = tmp_path / "c.pem"
    pem.write_text("no certificate")
    token = tmp_path / "token"
    token.write_text("long enough secret")
    token.chmod(0o600)
    words = ("--port", "0", "--certfile", str(pem), "--keyfile", str(pem), "--token-file", str(token))
    answer = run(writer.home, "dashboard", "--host", "0.0.0.0", *words)  # noqa: S104 - what is tested
    assert answer.returncode == 30
    assert "certificate" in answer.stderr


def test_taken_port_is_a_clear_error(writer: FleetWriter) -> None:
    """A second server on the port says so instead of a traceback."""
    with DashboardProcess(writer.home) as server:
        answer = run(writer.home, "dashboard", "--port", str(server.port))
    assert answer.returncode == 30
    assert "--port 0" in answer.stderr
