"""How every command ends: one message, the right exit code, and one JSON object where --json asks for it."""

import argparse
import errno
import json
import os
import sys

import pytest

from jobwire.core.boundary import INTERRUPTED, run_command
from jobwire.core.commands import CommandParser, wants_json
from jobwire.core.errors import NotFoundError


def end(error: BaseException, *, as_json: bool) -> int:
    """Run a command that fails so."""

    def body(_: argparse.Namespace) -> int:
        raise error

    return run_command(body, argparse.Namespace(), prog="prog", as_json=as_json)


def test_an_expected_failure_has_its_code_and_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    """Cause and remedy are two lines, or one JSON object."""
    assert end(NotFoundError("no job x", hint="look there"), as_json=False) == 40
    assert capsys.readouterr().err == "prog: error: no job x\nprog: hint: look there\n"
    assert end(NotFoundError("no job x", hint="look there"), as_json=True) == 40
    said = json.loads(capsys.readouterr().err)
    assert said == {"error": "no job x", "hint": "look there", "exit_code": 40}


def test_a_defect_is_an_internal_error_with_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    """What nobody expected ends with 50, never with 1, which says that the watched job failed."""
    assert end(ValueError("odd"), as_json=False) == 50
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert "prog: error: unexpected ValueError: odd" in said
    assert end(ValueError("odd"), as_json=True) == 50
    body = json.loads(capsys.readouterr().err)
    assert (body["exit_code"], "Traceback" in body["trace"]) == (50, True)


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENAMETOOLONG, 30), (errno.ELOOP, 30), (errno.ENOENT, 40), (errno.EACCES, 50)]
)
def test_what_the_system_refuses_is_no_defect(
    number: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name, a right or a disk that nobody saw coming: one line that names it, and no trace."""
    assert end(OSError(number, os.strerror(number), "some/file"), as_json=False) == code
    said = capsys.readouterr().err
    assert f"error: some/file: {os.strerror(number)}" in said
    assert "Traceback" not in said


def test_an_interruption_is_no_defect(capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C ends as shells report it, without a word."""
    assert end(KeyboardInterrupt(), as_json=False) == INTERRUPTED
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "words", [["--json", "--number", "x"], ["--number", "x", "--json"], ["--json", "--no"]]
)
def test_a_usage_error_is_json_too(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Programs read one JSON object also where the arguments are wrong, wherever --json stands."""
    parser = CommandParser("prog")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--number", type=int)
    with pytest.raises(SystemExit) as caught:
        parser.parse_args(words)
    assert caught.value.code == 30
    assert json.loads(capsys.readouterr().err)["exit_code"] == 30


def test_a_value_may_be_two_hyphens() -> None:
    """`--title=--` is the text of two hyphens; argparse alone would make a list of it."""
    parser = CommandParser("prog")
    parser.add_argument("--title")
    parser.add_argument("--number", type=int)
    assert parser.parse_args(["--title=--"]).title == "--"
    with pytest.raises(SystemExit):
        parser.parse_args(["--number=--"])


@pytest.mark.parametrize("word", ["a\0b", "\ud800"])
def test_what_no_shell_can_give_is_refused(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A caller from Python gets a usage error for what cannot be an argument; odd bytes can."""
    parser = CommandParser("prog")
    parser.add_argument("name")
    with pytest.raises(SystemExit):
        parser.parse_args([word])
    assert "no argument can be" in capsys.readouterr().err
    assert parser.parse_args(["\udcff"]).name == "\udcff"


def test_output_never_fails_for_a_character(capsys: pytest.CaptureFixture[str]) -> None:
    """The name of a file may be bytes that are no text: it is printed all the same."""

    def body(_: argparse.Namespace) -> int:
        sys.stdout.write("\udcff\n")
        return 0

    assert run_command(body, argparse.Namespace(), prog="prog", as_json=False) == 0
    assert capsys.readouterr().out == "\\udcff\n"


def test_what_follows_two_hyphens_is_not_ours() -> None:
    """`jobwire run -- tool --json` asks the tool for JSON, not jobwire."""
    assert wants_json(["run", "--json", "--", "tool"])
    assert not wants_json(["run", "--", "tool", "--json"])
