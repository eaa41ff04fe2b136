"""A child process from its start to its end, whatever comes in between."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jobwire.core.errors import ConflictError, StorageError
from jobwire.core.exit_codes import ExitCode
from jobwire.storage.process import Lifeline, ManagedProcess
from jobwire.testing import wait_for

_WAITS = "import signal, sys; print('up', flush=True); signal.pause()"
_STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {_WAITS}"
# Starts a child, tells its number, and waits to be killed.
_PARENT = """
import sys, threading
from jobwire.storage.process import Lifeline, ManagedProcess
words = [sys.executable, "-c", sys.argv[1]]
child = ManagedProcess(words, lifeline=Lifeline[sys.argv[2]])
thread = threading.Thread(target=child.start)
thread.start()
thread.join()
print(child.pid, flush=True)
threading.Event().wait()
"""


def python(program: str, tmp_path: Path, **options: object) -> ManagedProcess:
    """Return a program with its output in a file, not started."""
    return ManagedProcess([sys.executable, "-c", program], log=tmp_path / "log", **options)  # type: ignore[arg-type]


def gone(pid: int) -> bool:
    """Tell whether the process has ended, also where nobody has reaped it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_it_is_ready_by_a_fact_and_ends_when_it_is_asked(tmp_path: Path) -> None:
    """What it says is the fact; leaving the block ends and reaps it; its log is its owner's alone."""
    with python(_WAITS, tmp_path) as child:
        assert child.wait_until(child.said, 10.0) == "up\n"
        assert child.alive()
    assert not child.alive()
    assert child.how_it_ended() == "ended by SIGTERM"
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_one_that_will_not_end_is_made_to(tmp_path: Path) -> None:
    """Who ignores SIGTERM is killed after the grace time, and `stop` tells."""
    child = python(_STUBBORN, tmp_path, grace_seconds=0.1).start()
    child.wait_until(child.said, 10.0)
    assert not child.stop()
    assert child.how_it_ended() == "ended by SIGKILL"
    assert child.stop(), "a second time nothing is left to do"


def test_a_suspended_one_ends_too(tmp_path: Path) -> None:
    """SIGTERM reaches who was suspended."""
    child = python(_WAITS, tmp_path).start()
    child.wait_until(child.said, 10.0)
    child.tell(signal.SIGSTOP)
    assert child.stop()


def test_an_end_before_the_start_is_not_forgotten(tmp_path: Path) -> None:
    """Who was asked to end before it was started is not started, and waiting for it ends at once."""
    child = python(_WAITS, tmp_path)
    child.end()
    with child.start():
        assert not child.alive()
        assert child.wait_until(child.said, 10.0) is None
        assert child.wait() is None


def test_one_that_dies_is_quoted(tmp_path: Path) -> None:
    """An end instead of the fact is told at once, with how it ended and its last lines."""
    with python("print('no such thing'); raise SystemExit(3)", tmp_path) as child:
        with pytest.raises(StorageError) as caught:
            child.ready_line(60)
        assert "ended with exit code 3: no such thing" in caught.value.message


def test_an_earlier_life_is_not_quoted(tmp_path: Path) -> None:
    """The log goes on over lives; only the present one's words count."""
    with python('print(\'{"ready": true, "life": 1}\')', tmp_path) as first:
        assert first.ready_line(60)["life"] == 1
    with python("print('second')", tmp_path) as second:
        with pytest.raises(StorageError):
            second.ready_line(60)
        assert second.said() == "second\n"
    assert (tmp_path / "log").read_text().startswith("{")


def test_a_commands_own_error_is_raised_here(tmp_path: Path) -> None:
    """The object that a command with --json reports becomes the error that it stands for."""
    said = '{"error": "taken", "hint": "choose another", "exit_code": 20}'
    with python(f"print('{said}')", tmp_path) as child, pytest.raises(Exception, match="taken") as caught:
        child.ready_line(60)
    assert caught.value.exit_code == ConflictError.exit_code == ExitCode.CONFLICT  # type: ignore[attr-defined]
    assert caught.value.hint == "choose another"  # type: ignore[attr-defined]


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    """What cannot be executed says so in the log, like any other end."""
    with ManagedProcess([tmp_path / "nothing"], log=tmp_path / "log") as child:
        child.wait(60)
        assert child.tail() == f"{tmp_path / 'nothing'}: No such file or directory"


@pytest.mark.parametrize(
    ("lifeline", "program"),
    [(Lifeline.SIGNAL, _WAITS), (Lifeline.INPUT, "import sys; print('up', flush=True); sys.stdin.read()")],
)
def test_it_ends_with_its_parent(lifeline: Lifeline, program: str) -> None:
    """The parent is killed, not the thread that started the child: the child goes with the parent."""
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT, program, lifeline.name], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        lines = {parent.stdout.readline().strip(), parent.stdout.readline().strip()}
        pid = int(next(line for line in lines if line != "up"))
        assert "up" in lines
        assert not gone(pid)
        parent.kill()
        wait_for(lambda: gone(pid), what="the child's end")


def test_one_without_a_lifeline_goes_on() -> None:
    """Who is meant to outlive its parent does."""
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT, _WAITS, Lifeline.NONE.name], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        lines = {parent.stdout.readline().strip(), parent.stdout.readline().strip()}
        pid = int(next(line for line in lines if line != "up"))
        parent.kill()
        parent.wait()
        assert not gone(pid)
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: gone(pid), what="the end")


def test_the_last_of_a_long_output_is_kept_in_hand(tmp_path: Path) -> None:
    """However much it writes, a bounded part is read, the last of it."""
    with python(
        "print('x' * 80 + '\\n', end='')\nfor n in range(60000): print(n, 'y' * 40)", tmp_path
    ) as child:
        child.wait(60)
        assert len(child.said()) <= 1 << 20
        assert child.tail(1) == f"59999 {'y' * 40}"


def test_an_end_from_another_thread_ends_the_wait(tmp_path: Path) -> None:
    """`end` may come from any thread while another waits for the fact."""
    with python(_STUBBORN, tmp_path, grace_seconds=0.1) as child:
        child.wait_until(child.said, 10.0)
        threading.Timer(0.05, child.end).start()
        assert child.wait_until(lambda: False, 20.0) is None
