"""The commands as a person runs them: `jobwire dashboard`, `jobwire top`, `jobwire status`."""

import http.client
import json
import multiprocessing
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
from jobwire.testing.ports import free_port
from jobwire.testing.requirements import require, skip_here
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
        "sessions": 0,
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
        "import sys; from jobwire.cli.main import main; main(sys.argv[1:]); "
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
            return wait_for(lambda: s if text in (s := self.screen()) else "")
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
    terminal.wait_for("waits for you docs")

    def states() -> list[str]:
        return [line[9:23].strip() for line in terminal.screen().splitlines()[2:8]]

    wait_for(lambda: states() == STATES, what="all rows")  # a slow machine draws them one by one
    counts = "1 waits for you  0 stuck  1 failed  0 late  1 running  1 pending  2 done"
    assert terminal.screen().splitlines()[0].strip() == counts
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
        asked = urllib.request.Request(f"{server.url}api/stream")  # noqa: S310 - our own server
        asked.add_header("authorization", server.authorization)
        with urllib.request.urlopen(asked, timeout=60) as page:  # noqa: S310 - as above
            page.readline()
            begun = time.monotonic()
            assert server.stop(number) == 0
            assert time.monotonic() - begun < 5
            page.read()
        assert server.errors() == ""


def test_address_with_the_token_is_shown_again(writer: FleetWriter) -> None:
    """While the page runs `--link` shows its address; afterwards it says that none runs."""
    with DashboardProcess(writer.home) as server:
        assert run(writer.home, "dashboard", "--link").stdout == f"{server.link}\n"
        shown = json.loads(run(writer.home, "dashboard", "--link", "--json").stdout)
        assert shown == {"pages": [{"url": server.link, "pid": server.pid}]}
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(server.link, timeout=60) as answer:
            assert (answer.status, answer.url) == (200, server.url)
    answer = run(writer.home, "dashboard", "--link")
    assert answer.returncode == 40
    assert "jobwire dashboard" in answer.stderr


def test_killed_page_is_not_shown(writer: FleetWriter) -> None:
    """A page whose server was killed left its file, and is not named."""
    with DashboardProcess(writer.home) as server:
        server.stop(signal.SIGKILL)
        assert list((writer.home / "dashboard").iterdir())
        assert run(writer.home, "dashboard", "--link").returncode == 40


def test_log_that_others_read_gets_no_token(writer: FleetWriter, tmp_path: Path) -> None:
    """Standard output in a file that others can read names the address without its token."""
    log, port = tmp_path / "log", free_port()
    command = [*JOBWIRE, "--home", str(writer.home), "dashboard", "--port", str(port)]
    with log.open("w") as out:
        log.chmod(0o644)
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        text = wait_for(lambda: text if "--link" in (text := log.read_text()) else "")
        assert f"http://127.0.0.1:{port}/ shows " in text
        assert "token=" not in text
        assert "token=" in run(writer.home, "dashboard", "--link").stdout
    finally:
        process.terminate()
        process.wait(60)


def test_another_user_of_the_host_learns_nothing(writer: FleetWriter) -> None:
    """`nobody` reaches the port, and can neither look nor cancel nor find the token."""
    if os.getuid() != 0:
        skip_here("only root can become another user")
    job = writer.start("mine")
    with DashboardProcess(writer.home, "--allow-actions") as server:
        kept = writer.home / "dashboard" / f"{server.port}.json"
        asked = [("GET", "/"), ("GET", f"/api/jobs/{job}"), ("POST", f"/api/jobs/{job}/cancel")]
        context = multiprocessing.get_context("fork")
        with context.Pool(1, initializer=_become_nobody) as nobody:
            assert nobody.starmap(_status, [(server.port, *what) for what in asked]) == [401] * 3
            assert not nobody.apply(_can_read, [str(kept)])
            # Not in the server's arguments, which everybody may read.
            assert server.token not in Path(f"/proc/{server.pid}/cmdline").read_text()
    assert writer.store.get(job).status == "running"


def _become_nobody() -> None:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def _status(port: int, method: str, path: str) -> int:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    link.request(method, path, headers={"origin": f"http://127.0.0.1:{port}"})
    return link.getresponse().status


def _can_read(path: str) -> bool:
    return os.access(path, os.R_OK)


def test_dashboard_refuses_what_is_not_safe(writer: FleetWriter, tmp_path: Path) -> None:
    """Beyond loopback it does not start without TLS or secret, and says what to do."""
    answer = run(writer.home, "dashboard", "--host", "0.0.0.0", "--port", "0")  # noqa: S104 - what is tested
    assert answer.returncode == 30
    assert "TLS" in answer.stderr
    assert "hint:" in answer.stderr
    pem = tmp_path / "c.pem"
    pem.write_text("no certificate")
    pem.chmod(0o600)
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
