"""`jobwire logs` and `attach`: a job that was begun elsewhere."""

import json
import os
import pty
import select
import shlex
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobwire.registry.store import RecordStore
from jobwire.testing import EmbeddedServer, wait_for
from jobwire.testing.watching import JobHouse, bare_environment

JOBWIRE = [sys.executable, "-m", "jobwire.cli.main"]
_DEADLINE = 60.0


def jobwire(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run `jobwire ...` to its end."""
    return subprocess.run(
        [*JOBWIRE, "--home", str(home), *words],
        capture_output=True,
        text=True,
        env=bare_environment(),
        timeout=60,
        check=False,
    )


def begin(home: Path, *words: str) -> "subprocess.Popen[str]":
    """Start `jobwire ...`."""
    return subprocess.Popen(
        [*JOBWIRE, "--home", str(home), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=bare_environment(),
    )


def detached(home: Path, *command: str) -> str:
    """Return the id of a job in the background."""
    answer = jobwire(home, "run", "--detach", "--", *command)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Give a pipe whose reader waits until somebody writes to it."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


def test_logs_are_raw_for_programs(embedded_broker: EmbeddedServer) -> None:
    """Without a terminal every byte comes as it was written; --lines gives the end."""
    home = embedded_broker.home
    job_id = detached(home, "sh", "-c", "printf 'one\\ntwo \\033[2J\\nthree\\n'")
    assert jobwire(home, "logs", "-f", job_id).stdout == "one\ntwo \x1b[2J\nthree\n"
    assert jobwire(home, "logs", job_id, "--lines", "1").stdout == "three\n"
    assert jobwire(home, "logs", job_id, "--lines", "0").stdout == ""


def test_following_ends_with_the_job(embedded_broker: EmbeddedServer, gate: Path) -> None:
    """What comes is shown by `logs -f` as it comes; it ends with exit code 0 when the job does."""
    home = embedded_broker.home
    job_id = detached(home, "sh", "-c", f"echo begun; cat {gate}; exit 7")
    following = begin(home, "logs", "-f", job_id)
    assert following.stdout is not None
    assert following.stdout.readline() == "begun\n"
    gate.write_text("went on\n")
    output, errors = following.communicate(timeout=60)
    assert (output, errors, following.returncode) == ("went on\n", "", 0)


def test_output_that_is_not_kept(embedded_broker: EmbeddedServer) -> None:
    """An unknown job, and one whose worker keeps its output to itself, are exit code 40 with the reason."""
    home = embedded_broker.home
    assert jobwire(home, "logs", "00000000").returncode == 40
    answer = jobwire(home, "logs", JobHouse(home).register())
    assert answer.returncode == 40
    assert "logs -f" in answer.stderr


def test_attach_shows_output_and_events_to_the_verdict(embedded_broker: EmbeddedServer, gate: Path) -> None:
    """Output comes on stdout, events on stderr, and the exit code is the verdict's."""
    home = embedded_broker.home
    job_id = detached(home, "sh", "-c", f"echo begun; cat {gate}; exit 7")
    joined = begin(home, "attach", "--json", job_id)
    assert joined.stdout is not None
    assert joined.stdout.readline() == "begun\n"
    gate.write_text("went on\n")
    output, errors = joined.communicate(timeout=60)
    assert (output, joined.returncode) == ("went on\n", 1)
    said = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
    assert [line.get("event") or line["verdict"] for line in said][-2:] == ["error", "error"]


def test_leaving_an_attached_job_alone(embedded_broker: EmbeddedServer) -> None:
    """Ctrl-C ends the joining with 130 and not the job; attaching to a finished job gives its verdict."""
    home = embedded_broker.home
    job_id = detached(home, "sh", "-c", "echo begun; sleep 300")
    joined = begin(home, "attach", job_id)
    assert joined.stdout is not None
    assert joined.stdout.readline() == "begun\n"
    joined.send_signal(2)
    _, errors = joined.communicate(timeout=60)
    assert joined.returncode == 130
    assert f"job {job_id} goes on" in errors
    assert not RecordStore(home).get(job_id).terminal
    assert jobwire(home, "cancel", job_id).returncode == 0
    again = jobwire(home, "attach", job_id)
    assert (again.stdout, again.returncode) == ("begun\n", 3)


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, words: list[str], environ: dict[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            words, stdin=theirs, stdout=theirs, stderr=theirs, env=environ, start_new_session=True
        )
        os.close(theirs)
        self.text = ""

    def read(self) -> str:
        """Return everything that was written until now."""
        while select.select([self._ours], [], [], 0)[0]:
            try:
                self.text += os.read(self._ours, 4096).decode(errors="replace")
            except OSError:  # EIO: the other side is closed
                break
        return self.text

    def type(self, keys: bytes) -> None:
        """Type."""
        os.write(self._ours, keys)

    def close(self) -> None:
        """End the command and the terminal."""
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@pytest.fixture
def in_pane(embedded_broker: EmbeddedServer, tmux_server: str) -> Iterator[str]:
    """Give a job that waits in a pane of a tmux of its own."""
    title = uuid.uuid4().hex
    answer = jobwire(
        embedded_broker.home,
        *("run", "--detach", "--title", title, "--tmux-socket", tmux_server, "--tmux", "work"),
        *("--", "sh", "-c", "echo I am the pane; sleep 300"),
    )
    assert answer.returncode == 0, answer.stderr
    yield answer.stdout.strip()
    jobwire(embedded_broker.home, "cancel", answer.stdout.strip())


def left(terminal: Terminal) -> bool:
    """Type tmux' keys for detach; tell whether the command has ended."""
    terminal.type(b"\x02d")
    terminal.read()
    return terminal.process.poll() is not None


def test_attach_shows_the_pane_in_this_terminal(
    embedded_broker: EmbeddedServer, in_pane: str, tmp_path: Path
) -> None:
    """On a terminal a job in a pane is shown there; who detaches leaves it alone, with exit code 0."""
    # What a terminal has not shown by then goes when tmux begins to draw (tcflush(3)): it is read elsewhere.
    told = tmp_path / "told"
    aside = ["sh", "-c", f'exec "$@" 2>{shlex.quote(str(told))}', "sh"]
    words = [*aside, *JOBWIRE, "--home", str(embedded_broker.home), "attach", in_pane]
    terminal = Terminal(words, bare_environment(TERM="xterm") | {"TMUX": ""})
    try:
        wait_for(lambda: "I am the pane" in terminal.read(), deadline_seconds=_DEADLINE, what="the pane")
        # Again each second: tmux may take the first keys after it drew for pasted text (assume-paste-time).
        wait_for(lambda: left(terminal), deadline_seconds=_DEADLINE, what="the end", step_seconds=1.0)
        assert terminal.process.returncode == 0
        said = told.read_text(encoding="utf-8")
        assert "tmux attach, pane %" in said
        assert f"job {in_pane} goes on" in said
    finally:
        terminal.close()


def test_attach_switches_the_tmux_that_it_is_in(
    embedded_broker: EmbeddedServer, in_pane: str, tmux_server: str
) -> None:
    """Inside the same tmux the client is switched to the job's pane."""
    words = " ".join([*JOBWIRE, "--home", str(embedded_broker.home), "attach", in_pane])
    outer = ["tmux", "-L", tmux_server, "new-session", "-s", "outer", f"{words}; sleep 300"]
    terminal = Terminal(outer, bare_environment(TERM="xterm") | {"TMUX": ""})
    try:
        wait_for(lambda: "I am the pane" in terminal.read(), deadline_seconds=_DEADLINE, what="the pane")
        answer = subprocess.run(
            ["tmux", "-L", tmux_server, "list-clients", "-F", "#{session_name}"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert answer.stdout == "work\n"
    finally:
        terminal.close()


def test_attach_in_a_tmux_that_nobody_looks_at(
    embedded_broker: EmbeddedServer, in_pane: str, tmux_server: str
) -> None:
    """Where no client can be switched, output and events come here."""
    words = " ".join([*JOBWIRE, "--home", str(embedded_broker.home), "attach", in_pane])
    tmux = ["tmux", "-L", tmux_server]
    subprocess.run(
        [*tmux, "new-session", "-d", "-s", "outer", f"{words}; sleep 300"],
        env=bare_environment(),
        check=True,
    )
    shown = [*tmux, "capture-pane", "-p", "-t", "outer:"]

    def text() -> str:
        return subprocess.run(shown, capture_output=True, text=True, check=True).stdout

    wait_for(lambda: "I am the pane" in text(), deadline_seconds=_DEADLINE, what="the output")
    assert "no current client" in text()


def test_logs_on_a_terminal_are_harmless(embedded_broker: EmbeddedServer) -> None:
    """On a terminal colours pass and nothing else acts."""
    home = embedded_broker.home
    script = "printf '\\033[31mred\\033[0m \\033]0;title\\007\\n'"
    job_id = detached(home, "sh", "-c", script)
    terminal = Terminal([*JOBWIRE, "--home", str(home), "logs", "-f", job_id], bare_environment())
    try:
        terminal.process.wait(60)
        assert terminal.read() == "\x1b[31mred\x1b[0m ^[]0;title^G\r\n\x1b[0m"
    finally:
        terminal.close()
