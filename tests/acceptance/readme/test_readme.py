"""README.md, followed by somebody who types everything in it."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "readme_transcripts.py"


@pytest.fixture(scope="module")
def transcripts() -> ModuleType:
    """Give the script as a module."""
    spec = importlib.util.spec_from_file_location("readme_transcripts", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.timeout(300)
def test_the_readme_shows_what_its_commands_print() -> None:
    """Every command prints what stands below it, and every program runs."""
    command = [sys.executable, str(SCRIPT), "--check"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_what_differs_by_nature_is_not_compared(transcripts: ModuleType) -> None:
    """Ids, times, lengths and pids may differ, and lines of two writers change places; words may not."""
    one = "08:22:36 8679628f => completed after 1.2 s: done\nready on 127.0.0.1:8883 (pid 4319)\n"
    two = "ready on 127.0.0.1:8883 (pid 7)\n23:59:59 510985f1 => completed after 4 min 05 s: done\n"
    assert transcripts.comparable(one) == transcripts.comparable(two)
    assert transcripts.comparable(one) != transcripts.comparable(one.replace("done", "finished"))


def test_a_block_is_written_as_it_was_read(transcripts: ModuleType) -> None:
    """Commands over several lines, without output and with it, keep their form."""
    block = "$ first \\\n    --option\noutput\n\nmore\n$ second\n$ third\nend\n"
    commands = transcripts.parse(block)
    assert [command.text for command in commands] == ["first \\\n    --option", "second", "third"]
    assert transcripts.render(commands) == block


def test_only_blocks_that_differ_are_replaced(transcripts: ModuleType) -> None:
    """The rest of the README stays as it is, byte for byte."""
    text = "a\n```console\n$ x\n1\n```\nb\n```python\ny\n```\nc\n```console\n$ z\n```\nd\n"
    assert transcripts.replaced(text, {}) == text
    assert transcripts.replaced(text, {2: "$ z\n2\n"}) == text.replace("$ z\n", "$ z\n2\n")
