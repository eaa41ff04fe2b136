"""What holds for every command there is, found by walking the parsers."""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobwire.cli.main import COMMANDS, _parser, main
from jobwire.publisher.cli import main as publish_event
from jobwire.subscriber.cli import main as job_subscriber
from jobwire.testing.command_line import commands_of, needed_words

# They make a home, or need none: everything else ends with 40 where there is none.
WITHOUT_A_HOME = {
    ("init",): "makes one",
    ("broker", "up"): "makes one",
    ("demo",): "makes one in its own directory",
    ("schema",): "prints what is in the code",
    ("broker", "access-table"): "prints what is in the code",
    ("broker", "check"): "reads a rendered folder",
}


def every_command() -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Yield each command's words and parser."""
    for name in COMMANDS:
        for words, parser in commands_of(_parser(name)):
            if words[0] == name:
                yield words, parser


ALL = dict(every_command())


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in an empty directory without a home at or above it."""
    monkeypatch.chdir(tmp_path)
    for name in ("JOBWIRE_HOME", "JOBWIRE_TICKET", "JOBWIRE_JOB"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_the_walk_finds_the_commands() -> None:
    """The tests below are about all commands, not about a few."""
    assert len(ALL) > 50
    assert {("run",), ("registry", "list"), ("broker", "passwd", "add"), ("status",)} <= ALL.keys()
    assert WITHOUT_A_HOME.keys() <= ALL.keys()


@pytest.mark.parametrize("words", sorted(ALL.keys() - WITHOUT_A_HOME.keys()), ids=" ".join)
def test_without_a_home_a_command_says_so_and_leaves_nothing(
    words: tuple[str, ...], nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 40, the remedy on stderr, nothing on stdout, and no file anywhere: never a false all-clear."""
    assert main([*words, *needed_words(ALL[words])]) == 40
    out, err = capsys.readouterr()
    assert out == ""
    assert f"there is no home (.hermes) at or above {nowhere}" in err
    assert "jobwire init" in err
    assert list(nowhere.iterdir()) == []


@pytest.mark.parametrize("words", sorted(ALL), ids=" ".join)
def test_an_empty_home_is_invalid(words: tuple[str, ...], nowhere: Path) -> None:
    """`--home "$UNSET"` is invalid for every command, also for one that needs no home."""
    assert main([*words, "--home", "", *needed_words(ALL[words])]) == 30
    assert list(nowhere.iterdir()) == []


@pytest.mark.parametrize("words", sorted(ALL.keys() - WITHOUT_A_HOME.keys()), ids=" ".join)
def test_a_missing_home_is_not_made(words: tuple[str, ...], nowhere: Path) -> None:
    """A mistyped --home is an error of every command and no new directory."""
    assert main([*words, "--home", "mistyped", *needed_words(ALL[words])]) == 40
    assert list(nowhere.iterdir()) == []


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
