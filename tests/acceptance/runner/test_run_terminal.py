"""`jobwire run` before a person: the command has the terminal, keys and all, and the terminal comes back."""

import os
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from jobwire.jobs.lifecycle import Status
from jobwire.registry.store import RecordStore
from jobwire.testing import EmbeddedServer, wait_for
from jobwire.testing.run_command import newest_record
from jobwire.testing.watching import bare_environment

DEADLINE = 60.0


class Seat:
    """A person before a shell in a terminal of 80 columns (a pane of a tmux server)."""

    def __init__(self, server: str, home: Path) -> None:
        self._tmux = ["tmux", "-L", server]
        self.home = home
        shell = ["env", f"JOBWIRE_HOME={home}", "PS1=$ ", "bash", "--norc", "--noprofile", "-i"]
        subprocess.run(
            [*self._tmux, "new-session", "-d", "-s", "seat", "-x", "80", "-y", "24", "--", *shell],
            check=True,
            env=bare_environment(),
        )
        self.wait_for("$")

    def type(self, *keys: str) -> None:
        """Press keys; texts are typed as they are."""
        for key in keys:
            literal = [] if key in {"Enter", "Escape"} or key.startswith("C-") else ["-l"]
            subprocess.run([*self._tmux, "send-keys", "-t", "seat", *literal, "--", key], check=True)

    def run(self, *words: str, options: str = "", then: str = "echo code=$?") -> None:
        """Type a `jobwire run` and Enter."""
        jobwire = f"{shlex.quote(sys.executable)} -m jobwire.cli.main run {options}"
        self.type(f"clear; {jobwire} -- {shlex.join(words)}; {then}", "Enter")

    @property
    def screen(self) -> str:
        """Return what stands on the screen."""
        answer = subprocess.run(
            [*self._tmux, "capture-pane", "-p", "-J", "-t", "seat"],
            capture_output=True,
            text=True,
            check=True,
        )
        return answer.stdout

    def wait_for(self, text: str) -> None:
        """Wait until `text` stands at the beginning of a line, not only where it was typed."""
        wait_for(
            lambda: any(line.startswith(text) for line in self.screen.splitlines()),
            deadline_seconds=DEADLINE,
            what=f"{text!r} on the screen:\n{self.screen}",
        )

    def modes_are_back(self) -> None:
        """Wait until the shell's terminal edits lines again."""
        self.type("stty -a | tr -s ' ;' '\\n' | grep -x -e '-*icanon' -e '-*opost' -e '-*echo'", "Enter")
        for mode in ("icanon", "opost", "echo"):
            self.wait_for(mode)

    def resize(self, columns: int, rows: int) -> None:
        """Change the terminal's size."""
        size = ["-x", str(columns), "-y", str(rows)]
        subprocess.run([*self._tmux, "resize-window", "-t", "seat", *size], check=True)


@pytest.fixture
def seat(embedded_broker: EmbeddedServer, tmux_server: str) -> Seat:
    """Seat a person before a shell whose home has a broker."""
    return Seat(tmux_server, embedded_broker.home)


def output(home: Path) -> bytes:
    """Return what was kept of the newest job's output."""
    return Path(RecordStore(home).log_dir(newest_record(home).job_id), "output.log").read_bytes()


def test_a_question_is_answered(seat: Seat) -> None:
    """A program that asks gets what is typed, with echo; our lines stand before and after, not within."""
    seat.run("python3", "-c", "print('hello', input('name: '))")
    seat.wait_for("name:")
    assert seat.screen.splitlines()[0].startswith("jobwire: job ")
    seat.type("Ada", "Enter")
    seat.wait_for("code=0")
    lines = seat.screen.splitlines()
    asked = next(index for index, line in enumerate(lines) if line.startswith("name:"))
    assert lines[asked] == "name: Ada"
    assert "hello Ada" in lines[asked:]
    assert all(not line.startswith(" ") for line in lines)
    assert b"hello Ada" in output(seat.home)
    seat.modes_are_back()


def test_what_is_typed_after_the_command_is_the_shell_s(seat: Seat) -> None:
    """While the last events wait for a slow broker, the shell's next command can be typed."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        seat.type(f"export MQTT_PORT={silent.getsockname()[1]}", "Enter")
        seat.run("sh", "-c", "echo over", then="true")
        seat.wait_for("over")
        ending = Path(RecordStore(seat.home).log_dir(newest_record(seat.home).job_id), "ending.json")
        wait_for(ending.exists, deadline_seconds=DEADLINE, what="the command's end")
        seat.type("echo next command", "Enter")
        seat.wait_for("next command")


def test_it_is_a_terminal_of_this_size(seat: Seat) -> None:
    """The command sees a terminal, with our size, and hears when that changes; passwords have no echo."""
    waiting = "trap 'stty size; exit' WINCH; echo waiting; while :; do sleep 0.1; done"
    seat.run("bash", "-c", f"tty -s && stty size; read -s -p 'password: ' x; echo; echo got $x; {waiting}")
    seat.wait_for("24 80")
    seat.wait_for("password:")
    seat.type("secret", "Enter")
    seat.wait_for("got secret")
    assert seat.screen.count("secret") == 1
    seat.wait_for("waiting")
    seat.resize(100, 30)
    seat.wait_for("30 100")
    seat.wait_for("code=0")


def test_ctrl_c_interrupts_the_command(seat: Seat) -> None:
    """Ctrl-C reaches the command; one that ends of it is a cancelled job, exit code 3."""
    seat.run("sh", "-c", "echo ready; sleep 300 & sleep 300")
    seat.wait_for("ready")
    seat.type("C-c")
    seat.wait_for("code=3")
    record = newest_record(seat.home)
    assert (record.status, record.detail) == (Status.CANCELLED, "interrupted by Ctrl-C")
    seat.modes_are_back()


def test_ctrl_c_is_the_command_s_to_take(seat: Seat) -> None:
    """A program that goes on after Ctrl-C goes on, and its ending is its own."""
    script = "trap 'echo caught' INT; echo ready; sleep 300; read x; echo $x; exit 0"
    seat.run("bash", "-c", script)
    seat.wait_for("ready")
    seat.type("C-c")
    seat.wait_for("^Ccaught")
    seat.type("on", "Enter")
    seat.wait_for("code=0")
    assert newest_record(seat.home).status is Status.COMPLETED


def test_ctrl_z_suspends_and_fg_goes_on(seat: Seat) -> None:
    """Ctrl-Z stops the command and gives the shell its terminal; `fg` goes on where it was."""
    seat.run("sh", "-c", "echo ready; read x; echo got $x")
    seat.wait_for("ready")
    seat.type("C-z")
    seat.wait_for("[1]+")
    seat.modes_are_back()
    seat.type("fg", "Enter")
    seat.type("this", "Enter")
    seat.wait_for("got this")
    wait_for(
        lambda: newest_record(seat.home).status is Status.COMPLETED, deadline_seconds=DEADLINE, what="end"
    )


def test_killed_hard_it_gives_the_terminal_back(seat: Seat) -> None:
    """SIGKILL of the watcher: the terminal edits lines again, and the command goes on."""
    seat.run("sh", "-c", "echo ready; sleep 300")
    seat.wait_for("ready")
    os.kill(watcher_of(seat.home), signal.SIGKILL)
    seat.wait_for("code=137")
    seat.modes_are_back()
    record = newest_record(seat.home)
    assert record.status is Status.RUNNING
    cancel = [sys.executable, "-m", "jobwire.cli.main", "--home", str(seat.home), "cancel", record.job_id]
    assert subprocess.run(cancel, capture_output=True, check=False, env=bare_environment()).returncode == 0


def test_a_killed_worker_gives_the_terminal_back(seat: Seat) -> None:
    """SIGKILL of the worker: an error that says so, and a terminal that edits lines."""
    seat.run("sh", "-c", "kill -9 $PPID; sleep 1")
    seat.wait_for("code=1")
    assert "died without a last word (killed by SIGKILL)" in newest_record(seat.home).detail
    seat.modes_are_back()


def test_a_drawn_screen_is_left_alone(seat: Seat) -> None:
    """While a program draws, none of our lines is shown; they come when it has ended."""
    script = r"printf '\033[?1049h\033[H::progress half 50%%\n'; read x; printf '\033[?1049l'"
    seat.run("bash", "-c", script)
    seat.wait_for("::progress half 50%")
    wait_for(
        lambda: "half 50%" in newest_record(seat.home).detail, deadline_seconds=DEADLINE, what="progress"
    )
    assert "started" not in seat.screen
    seat.type("Enter")
    seat.wait_for("code=0")
    assert "50% half 50%" in seat.screen


def test_error_output_stays_apart(seat: Seat, tmp_path: Path) -> None:
    """With 2>FILE the command's error output and our lines go there, and nothing of it on the screen."""
    errors = tmp_path / "errors"
    seat.type(f"exec 2>{errors}", "Enter")
    seat.run("sh", "-c", "tty -s && echo terminal; echo failed >&2")
    seat.wait_for("terminal")
    seat.wait_for("code=0")
    assert "failed\n" in errors.read_text()
    assert "completed" in errors.read_text()


def test_the_command_in_a_pane_has_that_terminal(
    embedded_broker: EmbeddedServer, tmux_server: str, tmp_path: Path
) -> None:
    """--tmux: what is typed in the pane reaches the command there."""
    ready = tmp_path / "ready"
    script = f"tty -s && touch {ready}; read x; echo got $x"
    words = ["run", "--tmux-socket", tmux_server, "--tmux", "work", "--", "sh", "-c", script]
    watcher = subprocess.Popen(
        [sys.executable, "-m", "jobwire.cli.main", "--home", str(embedded_broker.home), *words],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=bare_environment(),
    )
    wait_for(ready.exists, deadline_seconds=DEADLINE, what="the command to run")
    subprocess.run(["tmux", "-L", tmux_server, "send-keys", "-t", "work", "typed", "Enter"], check=True)
    _, errors = watcher.communicate(timeout=DEADLINE)
    assert watcher.returncode == 0, errors
    assert b"got typed" in output(embedded_broker.home)


def watcher_of(home: Path) -> int:
    """Return the process id of the `jobwire run` that watches the newest job: it holds the lease."""
    lease = newest_record(home).lease
    assert lease is not None
    return int(lease.owner.rpartition(":")[2])
