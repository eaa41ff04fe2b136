"""What a command said last."""

import os
from pathlib import Path

import pytest

from jobwire.coordination.routing.directives import Directive, read_directives
from jobwire.runner.accepting import runnable
from jobwire.runner.last_words import MAX_WORDS, last_words

LINE = '::bus-send{to="a" intent="review" message="m"}'
NOWHERE = Path("/dev/null")


def words_of(tmp_path: Path, output: bytes) -> str:
    """Return the last words of a command with this output."""
    (tmp_path / "output.log").write_bytes(output)
    return last_words(NOWHERE, tmp_path / "output.log").text


def test_the_receipt_goes_before_the_output(tmp_path: Path) -> None:
    """What the command wrote as its receipt counts, with its first line as the summary."""
    (tmp_path / "output.log").write_text("noise\nlast line\n\n")
    assert last_words(tmp_path / "none", tmp_path / "output.log") == ("noise\nlast line", "last line")
    (tmp_path / "receipt").write_text("\n# It works\n\nbecause\n")
    found = last_words(tmp_path / "receipt", tmp_path / "output.log")
    assert found == ("# It works\n\nbecause", "# It works")


def test_a_flood_leaves_its_end(tmp_path: Path) -> None:
    """Of much output the last lines are kept, from a whole one on."""
    text = words_of(tmp_path, b"".join(b"line %d\n" % number for number in range(100_000)))
    assert len(text) <= MAX_WORDS
    assert text.startswith("line ")
    assert text.endswith("line 99999")


@pytest.mark.parametrize("fence", ["```", "~~~~", "  ```text"])
def test_what_was_quoted_stays_quoted(tmp_path: Path, fence: str) -> None:
    """Where the kept end begins inside a code fence, no directive of it counts; behind the fence it does."""
    flood = "x" * 100 + "\n"
    output = f"{fence}\n{flood * 500}{LINE}\n"
    assert list(read_directives(words_of(tmp_path, output.encode()))) == []
    closed = f"{output}{fence.strip().removesuffix('text')}\n{LINE}\n"
    found = list(read_directives(words_of(tmp_path, closed.encode())))
    assert [type(one) for one in found] == [Directive]
    early = f"{fence}\n{fence.strip().removesuffix('text')}\n{flood * 500}{LINE}\n"
    assert len(list(read_directives(words_of(tmp_path, early.encode())))) == 1
    hidden = f"shown over\r{fence}\n{flood * 500}{LINE}\n"
    assert list(read_directives(words_of(tmp_path, hidden.encode()))) == []


def test_any_bytes_are_words(tmp_path: Path) -> None:
    """Bytes that are no text, colours and controls become what can be read; no line without end is kept."""
    assert words_of(tmp_path, b"\xff\xfe\x1b[31mred\x1b[0m\x00\x07 \xe2\x80\xae") == "��red^@^G \\u202e"
    assert words_of(tmp_path, b"y" * 10**6) == "y" * MAX_WORDS
    assert words_of(tmp_path, b"") == ""


def test_what_is_no_file_is_no_receipt(tmp_path: Path) -> None:
    """A link, a pipe or a directory in the place of the receipt says nothing, and nobody waits for it."""
    (tmp_path / "output.log").write_text("said\n")
    (tmp_path / "secret").write_text("not ours\n")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for name in ("link", "fifo", "folder"):
        assert last_words(tmp_path / name, tmp_path / "output.log").text == "said"


def test_only_what_a_plan_or_the_user_allows_is_run() -> None:
    """Lines of a plan run; others where the user's own list has them; what is no command line does not."""
    lines = ["make test", "rm -rf /", "pytest tests/a.py", "quote ' open"]
    assert runnable(lines, [], []) == []
    assert runnable(lines, ["rm -rf /"], ["pytest *", "quote*"]) == ["rm -rf /", "pytest tests/a.py"]
