"""What holds for every command there is, found by walking the parsers."""

import argparse
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from jobwire.cli.main import COMMANDS, _parser, main
from jobwire.publisher.cli import main as publish_event
from jobwire.subscriber.cli import main as job_subscriber
from jobwire.testing.command_line import commands_of, needed_words

# They make a home, or need none: everything else ends with 40 where there is none.
WITHOUT_A_HOME = {
    ("init",): "makes one",
    ("inbox", "init"): "makes one",
    ("up",): "makes one",
    ("broker", "up"): "makes one",
    ("demo",): "makes one in its own directory",
    ("schema",): "prints what is in the code",
    ("hook",): "fails open: an agent is never stopped by it",
    ("skill",): "prints what is in the code",
    ("lock", "hook"): "prints what is in the code",
    ("broker", "access-table"): "prints what is in the code",
    ("broker", "check"): "reads a rendered folder",
}


# As `main` builds them, once each: it is their answers that are tested here.
PARSER = cache(_parser)


def commands_below(name: str) -> dict[tuple[str, ...], argparse.ArgumentParser]:
    """Return the parser of each command whose first word is `name`."""
    return {words: parser for words, parser in commands_of(PARSER(name)) if words[0] == name}


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in an empty directory without a home at or above it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("jobwire.cli.main._parser", PARSER)
    for name in ("JOBWIRE_HOME", "JOBWIRE_TICKET", "JOBWIRE_JOB"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JOBWIRE_AGENT", "tester")
    return tmp_path


def test_the_walk_finds_the_commands() -> None:
    """The tests below are about all commands, not about a few."""
    found = {words for name in COMMANDS for words in commands_below(name)}
    assert len(found) > 50
    assert {("run",), ("registry", "list"), ("broker", "passwd", "add"), ("status",)} <= found
    assert WITHOUT_A_HOME.keys() <= found


@pytest.mark.parametrize("name", COMMANDS)
def test_a_home_that_is_not_there(name: str, nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """None, an empty and a mistyped one: the exit code, the remedy, and no file; never a false all-clear."""
    for words, parser in commands_below(name).items():
        needed, said = needed_words(parser), " ".join(words)
        # `--home "$UNSET"` is invalid also for a command that needs no home.
        assert main([*words, "--home", "", *needed]) == 30, said
        if words not in WITHOUT_A_HOME:
            assert main([*words, "--home", "mistyped", *needed]) == 40, said
            capsys.readouterr()
            assert main([*words, *needed]) == 40, said
            out, err = capsys.readouterr()
            assert out == "", said
            assert f"there is no home (.hermes) at or above {nowhere}" in err, said
            assert "jobwire init" in err, said
        assert list(nowhere.iterdir()) == [], said


@pytest.mark.parametrize("program", [publish_event, job_subscriber])
def test_the_programs_of_workers_and_watchers_look_as_all_do(
    program: Callable[[list[str]], int], nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`publish_event` and `job_subscriber` find their home by the same rule."""
    more = ["--event", "started"] if program is publish_event else []
    assert program(["--job", "0000abcd", *more]) == 40
    assert "there is no home" in capsys.readouterr().err
    assert program(["--job", "0000abcd", *more, "--home", ""]) == 30
    assert program(["--job", "0000abcd", *more, "--home", "mistyped"]) == 40
    # A ticket is all that a worker on another host has.
    assert program(["--ticket", "missing", *more]) == 40
    assert "ticket" in capsys.readouterr().err
    assert list(nowhere.iterdir()) == []
