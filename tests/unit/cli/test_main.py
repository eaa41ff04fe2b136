"""The umbrella command: finding components, the home directory, usage errors."""

import json
from typing import TYPE_CHECKING

import pytest
from jsonschema import Draft202012Validator

from jobwire.cli.main import AUTOPILOT_VALUES, COMMANDS, RUN_VALUES, _take_home, main
from jobwire.cli.schema import asyncapi, json_schema
from jobwire.cli.work_arguments import add_autopilot, add_run
from jobwire.core.commands import CommandParser
from jobwire.core.signature import new_token
from jobwire.jobs.event import Event, encode_signed

if TYPE_CHECKING:
    import argparse


def test_no_words_print_help(capsys: pytest.CaptureFixture[str]) -> None:
    """`jobwire` alone shows every command and the exit codes, and succeeds."""
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in COMMANDS)
    assert "exit codes:" in shown


@pytest.mark.parametrize("words", [["schema"], ["schema", "nothing"], ["--nonsense"]])
def test_usage_errors_are_exit_30(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A typo ends with the code for invalid usage, never with the code for a timeout."""
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 30
    assert "error" in capsys.readouterr().err


def test_a_typo_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped command is named with the one that was probably meant."""
    assert main(["rnu"]) == 30
    assert "did you mean run" in capsys.readouterr().err
    assert main(["zzzzzz"]) == 30
    assert "--help" in capsys.readouterr().err


def test_home_is_taken_on_both_sides_but_not_from_the_command() -> None:
    """--home works before and after a command's name; what follows `--` belongs to the job."""
    assert _take_home(["--home", "a", "run"]) == (["run"], "a")
    assert _take_home(["run", "--home=a", "--", "x", "--home", "b"]) == (
        ["run", "--", "x", "--home", "b"],
        "a",
    )
    assert _take_home(["run"]) == (["run"], None)
    assert _take_home(["run", "--home="]) == (["run"], "")
    theirs = ["run", "--title", "x", "ls", "--home", "b", "--", "--home", "c"]
    assert _take_home(["run", "--home", "a", *theirs[1:]]) == (theirs, "a")
    assert _take_home(["list", "x", "--home", "a"]) == (["list", "x"], "a")
    assert _take_home(["list", "--home"]) == (["list", "--home"], None)


def test_where_the_words_of_the_command_begin() -> None:
    """The options of `run` and `autopilot` that take a value are those that the word-splitting knows."""
    parser: argparse.ArgumentParser = CommandParser()
    commands = parser.add_subparsers()
    add_run(commands)
    run = commands.choices["run"]
    taking = {name for one in run._actions if one.nargs is None for name in one.option_strings}
    assert taking == RUN_VALUES
    add_autopilot(commands)
    autopilot = commands.choices["autopilot"]
    taking = {name for one in autopilot._actions if one.nargs is None for name in one.option_strings}
    assert taking - {"--home"} == AUTOPILOT_VALUES


def test_the_published_schema_accepts_what_is_published() -> None:
    """A signed event validates against the JSON Schema that other languages are given."""
    validator = Draft202012Validator(json_schema("event"))
    body = json.loads(
        encode_signed(Event(1, "0000abcd", "started", "2026-01-02T03:04:05Z", "", {}), new_token())
    )
    validator.validate(body)
    assert not validator.is_valid({**body, "more": 1})
    assert not validator.is_valid({**body, "job_id": "x"})


def test_asyncapi_names_both_topics(capsys: pytest.CaptureFixture[str]) -> None:
    """The description of the topic tree holds the addresses that the code uses."""
    assert main(["schema", "asyncapi"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == asyncapi()
    addresses = {channel["address"] for channel in shown["channels"].values()}
    assert addresses == {"python/mqtt/jobs/{job_id}/events", "python/mqtt/jobs/{job_id}/state"}


@pytest.mark.parametrize(("word", "shown"), [("registry", "register"), ("journal", "verify")])
def test_a_missing_command_shows_the_help(word: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a command is missing, its whole help is shown, on stderr, with the exit code of a usage error."""
    with pytest.raises(SystemExit) as ended:
        main([word])
    assert ended.value.code == 30
    told = capsys.readouterr().err
    assert shown in told
    assert told.endswith("required: COMMAND\n")


def test_help_fits_the_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Prose is filled to the width of the terminal; examples and tables keep their lines."""
    monkeypatch.setenv("COLUMNS", "70")
    with pytest.raises(SystemExit):
        main(["watch", "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 70 and not line.startswith("  ")] == []
    assert "  job_subscriber 0a1b2c3d" in lines
