"""`jobwire journal` as people and scripts run it: real processes, a real terminal, real pipes."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobwire.core.clock import SystemClock
from jobwire.journal.entry import Entry
from jobwire.journal.writer import JournalWriter
from jobwire.testing import new_home, wait_for

_HOSTILE = b'{"seq": 1, "event": "started", "detail": "\\u001b]0;owned\\u0007 \\u202e"}'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Give a home with a journal of five entries."""
    home = new_home(tmp_path / "home")
    with _writer(home) as writer:
        writer.append([_entry(i) for i in range(5)])
    return home


def _writer(home: Path) -> JournalWriter:
    return JournalWriter(home / "journal", clock=SystemClock())


def _entry(number: int) -> Entry:
    topic = f"python/mqtt/jobs/{number:08x}/events"
    return Entry(1_767_225_600_000_000 + number, topic, _HOSTILE, False, "accepted")


def _command(home: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "jobwire.cli.main", "--home", str(home), "journal", *words]


def test_following_prints_each_new_entry_at_once(home: Path) -> None:
    """`tail -f` on a pipe: JSON lines as they become durable, and 130 on Ctrl-C."""
    process = subprocess.Popen(
        _command(home, "tail", "-f", "-n", "2"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        assert [json.loads(process.stdout.readline())["offset"] for _ in range(2)] == [3, 4]
        with _writer(home) as writer:
            for number in range(5, 8):
                writer.append([_entry(number)])
                assert json.loads(process.stdout.readline())["offset"] == number
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def test_a_terminal_gets_aligned_lines_without_control_characters(home: Path) -> None:
    """On a terminal: one line an entry, escapes shown instead of obeyed."""
    master, slave = pty.openpty()
    with os.fdopen(master, "rb", buffering=0) as screen:
        done = subprocess.run(_command(home, "cat"), stdout=slave, check=True)
        os.close(slave)
        text = b""
        while True:
            try:
                text += screen.read(4096)
            except OSError:  # EIO: the last writer closed the terminal
                break
    assert done.returncode == 0
    lines = text.decode().replace("\r\n", "\n").splitlines()
    assert len(lines) == 5
    assert all(line.isprintable() for line in lines)
    assert {line.index("accepted") for line in lines} == {lines[0].index("accepted")}
    assert re.search(r"#1 started", lines[0])


def test_a_closed_pipe_is_no_error(home: Path) -> None:
    """`jobwire journal cat | head -1` ends quietly with 0."""
    with _writer(home) as writer:
        for _ in range(20):
            writer.append([_entry(number) for number in range(500)])
    process = subprocess.Popen(_command(home, "cat"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 0
    assert errors == b""


def test_verify_ends_with_50_and_the_facts(home: Path) -> None:
    """A script learns of damage by the exit code, a person by the line."""
    segment = home / "journal" / f"{0:020d}.seg"
    content = bytearray(segment.read_bytes())
    content[-9] ^= 1
    segment.write_bytes(content)
    done = subprocess.run(_command(home, "verify"), capture_output=True, text=True, check=False)
    assert done.returncode == 50
    assert "DAMAGED 00000000000000000000.seg byte 64" in done.stdout
    assert "offsets 0 up to 5 unreadable" in done.stdout


def test_verify_and_cat_work_beside_a_running_writer(home: Path) -> None:
    """Reading takes no lock and never sees a half-written entry."""
    with _writer(home) as writer:
        process = subprocess.Popen(_command(home, "verify", "--json"), stdout=subprocess.PIPE, text=True)
        wait_for(lambda: writer.append([_entry(1)]) and process.poll() is not None)
        assert process.stdout is not None
        report = json.loads(process.stdout.read())
        process.stdout.close()
    assert process.returncode == 0
    assert report["entries"] >= 5
    assert report["damage"] == []


def test_every_leaf_has_help_with_an_example() -> None:
    """Each command explains itself."""
    for words in (
        ["tail"],
        ["cat"],
        ["verify"],
        ["stat"],
        ["prune"],
        ["consumers", "list"],
        ["consumers", "remove"],
    ):
        done = subprocess.run(_command(Path(), *words, "--help"), capture_output=True, text=True, check=True)
        assert "example:\n  jobwire journal" in done.stdout
        assert "--json" in done.stdout
