"""Windows of a real tmux: made by many at once, found again, let go."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import ConfigError
from jobwire.jobs.record import JobRecord
from jobwire.runner.tmux import PANE, Pane, Tmux
from jobwire.runner.worker_process import pane_worker
from jobwire.testing import wait_for
from jobwire.testing.descriptors import nothing_left_open

SLEEPER = ["sleep", "300"]


def record(**extra: object) -> JobRecord:
    """Return a record with these fields beside its own."""
    stamp = utc_timestamp(0.0)
    return JobRecord("1a2b3c4d", "t" * 43, stamp, stamp, extra=extra)


def windows(tmux_server: str) -> Counter[str]:
    """Return the names of the server's sessions, each as often as it has windows."""
    answer = subprocess.run(
        ["tmux", "-L", tmux_server, "list-windows", "-a", "-F", "#{session_name}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return Counter(answer.stdout.split())


def test_many_at_once_share_one_new_session(tmux_server: str, tmp_path: Path) -> None:
    """Eight that want a session on a server which are both not there each get a window of it."""
    script = (
        "import sys; from pathlib import Path; from jobwire.runner.tmux import Tmux\n"
        "sys.stdin.readline()\n"
        "tmux = Tmux(socket=sys.argv[1])\n"
        "print(tmux.open_window('work', 'job', ['sleep', '300'], directory=Path('/')).pane)"
    )
    many = [
        subprocess.Popen(
            [sys.executable, "-c", script, tmux_server],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for one in many:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    said = [one.communicate(timeout=60) for one in many]
    assert [errors for _, errors in said if errors] == []
    assert len({pane for pane, _ in said}) == 8
    assert windows(tmux_server) == {"work": 8}


def test_a_window_is_found_again_and_only_itself(tmux_server: str, tmp_path: Path) -> None:
    """What the record keeps leads back to the pane while its process lives, and nowhere afterwards."""
    tmux = Tmux(socket=tmux_server)
    pane = tmux.open_window("work", "1a2b3c4d", SLEEPER, directory=tmp_path)
    other = tmux.open_window("work", "other", SLEEPER, directory=tmp_path)
    assert Pane.of(record(**{PANE: pane._asdict()})) == pane
    again = Tmux(path=pane.socket)
    assert again.holds(pane)
    assert not again.holds(pane._replace(pid=other.pid))
    os.kill(pane.pid, 9)
    wait_for(lambda: not again.holds(pane), what="the pane to be gone")
    assert again.holds(other)


def test_the_window_begins_in_the_directory_whatever_its_name(tmux_server: str, tmp_path: Path) -> None:
    """A directory whose name tmux could expand as a format is taken as it is."""
    odd = tmp_path / "#{pid} #(touch pwned)"
    odd.mkdir()
    said = tmp_path / "said"
    Tmux(socket=tmux_server).open_window("work", "t", ["sh", "-c", f"pwd > {said}; sleep 300"], directory=odd)
    assert wait_for(lambda: said.exists() and said.read_text()) == f"{odd}\n"


@pytest.mark.parametrize("extra", [{}, {PANE: "x"}, {PANE: {}}, {PANE: {"socket": "-S", "session": "a"}}])
def test_a_record_without_a_pane_names_none(extra: dict[str, object]) -> None:
    """Neither an ordinary record nor a strange one leads to tmux."""
    assert Pane.of(record(**extra)) is None


def test_what_tmux_refuses_for_good_is_said_at_once(tmux_server: str, tmp_path: Path) -> None:
    """A refusal that no repetition heals names tmux's own words."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="tmux refused"):
        Tmux(path=str(tmp_path / "file" / "socket")).open_window("work", "t", SLEEPER, directory=tmp_path)


def test_a_worker_in_a_pane_leaves_no_descriptor(tmux_server: str, tmp_path: Path) -> None:
    """Waited for, stopped or let go: no descriptor of the process stays open, also where it ended at once."""
    with nothing_left_open():
        tmux = Tmux(socket=tmux_server)
        for command, ends in ((["true"], True), (SLEEPER, False)):
            for _ in range(3):
                worker = pane_worker(tmux.open_window("work", "t", command, directory=tmp_path))
                if not ends:
                    assert not worker.wait(0)
                    worker.stop()
                assert worker.wait(60)
                worker.close()
                assert worker.wait(0)
        pane = tmux.open_window("work", "t", SLEEPER, directory=tmp_path)
        pane_worker(pane).close()
        assert tmux.holds(pane)
