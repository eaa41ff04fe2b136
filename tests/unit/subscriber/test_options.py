"""The command line of job_subscriber: what it means, and what it refuses."""

import argparse
from pathlib import Path

import pytest

from jobwire.core.broker_layer import command_line_layer
from jobwire.core.commands import body_of
from jobwire.core.errors import InvalidInputError
from jobwire.subscriber.cli import add_commands, add_options, main
from jobwire.subscriber.command import mode_of, timeout_options
from jobwire.subscriber.fleet import Mode
from jobwire.testing import new_home


def parse(*words: str) -> argparse.Namespace:
    """Return the parsed options."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args(words)


def test_timeouts() -> None:
    """Named limits override the record's, `none` lifts one, the rest stays as it is."""
    args = parse("--job", "0000abcd", "--idle-timeout", "5", "--wall-timeout", "none")
    assert timeout_options(args) == {"idle_seconds": 5.0, "wall_seconds": None}


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "soon", ""])
def test_a_limit_that_is_none(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is no positive number of seconds is refused with exit code 30."""
    with pytest.raises(SystemExit) as ended:
        main(["--job", "0000abcd", "--idle-timeout", value])
    assert ended.value.code == 30
    assert "idle-timeout" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        (["0000abcd"], ["0000abcd"]),
        (["--json", "0000abcd", "0000abce"], ["0000abcd", "0000abce"]),
        (["--job", "0000abcd", "--bell"], ["0000abcd"]),
        (["--job", "0000abcd", "0000abce", "--job", "0000abcf"], ["0000abcd", "0000abce", "0000abcf"]),
        (["--all"], []),
    ],
)
def test_jobs_are_named_with_or_without_an_option(words: list[str], jobs: list[str]) -> None:
    """`JOB` is `--job JOB`, alone, several, and both together."""
    assert parse(*words).job == jobs


def test_modes() -> None:
    """The options choose when the watch ends."""
    assert mode_of(parse("--job", "0000abcd")) == Mode()
    assert mode_of(parse("--all", "--any")) == Mode(any_one=True)
    assert mode_of(parse("--all", "--fail-fast", "--follow")) == Mode(fail_fast=True, follow=True)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--job", "0000abcd", "--follow"],
        ["--all", "--follow", "--any"],
        ["--all", "--json", "--format", "line"],
    ],
)
def test_contradictions(words: list[str]) -> None:
    """Options that make no sense together are refused with a remedy or a reason."""
    with pytest.raises(InvalidInputError):
        mode_of(parse(*words))


def test_broker_options() -> None:
    """Broker options become the highest layer; there is none for a password."""
    layer = command_line_layer(parse("--all", "--broker", "b", "--port", "8883", "--no-tls"))
    assert (layer["broker"], layer["port"], layer["tls"]) == ("b", 8883, "off")
    with pytest.raises(SystemExit):
        main(["--all", "--password", "x"])


@pytest.mark.parametrize("port", ["0", "65536", "x", "²"])
def test_a_port_that_is_none(port: str) -> None:
    """A port is a number from 1 to 65535."""
    with pytest.raises(SystemExit):
        parse("--all", "--port", port)


@pytest.mark.parametrize("job", ["ABCD0000", "abc", "../../etc", "0000abcd\n"])
def test_a_job_id_that_is_none(job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is no job id never becomes a path or a topic: exit code 30."""
    assert main(["--home", str(new_home(tmp_path)), "--job", job]) == 30
    assert "job id" in capsys.readouterr().err


def test_unknown_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A job that is not there is exit code 40, with the place that was looked at; as JSON if asked."""
    assert main(["--home", str(new_home(tmp_path)), "--job", "0000abcd"]) == 40
    assert str(tmp_path) in capsys.readouterr().err
    assert main(["--home", str(new_home(tmp_path)), "--job", "0000abcd", "--json"]) == 40
    assert '"exit_code": 40' in capsys.readouterr().err


def test_nothing_to_watch(tmp_path: Path) -> None:
    """--all without an unfinished job is exit code 10."""
    assert main(["--home", str(new_home(tmp_path)), "--all"]) == 10


def test_under_the_umbrella() -> None:
    """`jobwire watch` takes the same options."""
    parser = argparse.ArgumentParser()
    add_commands(parser.add_subparsers())
    args = parser.parse_args(["watch", "--job", "0000abcd", "--any"])
    assert args.any
    assert callable(body_of(args.run))


def test_help_shows_an_example_and_the_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """--help ends with examples and the exit code table."""
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "job_subscriber 0a1b2c3d" in text
    assert "exit codes:" in text
