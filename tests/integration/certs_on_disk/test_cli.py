"""The `certs` commands: what they print, for people and for programs."""

import argparse
import json
from pathlib import Path

import pytest

from jobwire.certs import cli
from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.values import Finding, Level
from jobwire.core.commands import CommandParser, body_of
from jobwire.core.errors import ConflictError, InvalidInputError, NotFoundError
from jobwire.core.exit_codes import ExitCode

COMMANDS = [
    "init",
    "issue",
    "issue-job",
    "issue-server",
    "show",
    "revoke",
    "renew",
    "crl",
    "check",
    "prune",
    "rollover",
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home with an authority."""
    CertificateAuthority(tmp_path / "certs").init()
    return tmp_path


def parser(home: Path) -> argparse.ArgumentParser:
    """Return an umbrella with the `certs` commands only."""
    umbrella: argparse.ArgumentParser = CommandParser("jobwire")
    umbrella.set_defaults(home=str(home))
    cli.add_commands(umbrella.add_subparsers(required=True))
    return umbrella


def run(home: Path, *arguments: str) -> int:
    """Run one command in process."""
    args = parser(home).parse_args(["certs", *arguments])
    return body_of(args.run)(args)


def run_json(home: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    """Run one command with --json and return what it printed, which is one line."""
    capsys.readouterr()
    run(home, *arguments, "--json")
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    value = json.loads(printed)
    return dict(value[0]) if isinstance(value, list) else dict(value)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """Each command has help with an example and a --json option."""
    with pytest.raises(SystemExit) as caught:
        parser(tmp_path).parse_args(["certs", command, "--help"])
    text = capsys.readouterr().out
    assert caught.value.code == 0
    assert f"jobwire certs {command}" in text
    assert "--json" in text


def test_init_then_issue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first two commands of an operator say where everything is."""
    assert run(tmp_path, "init", "--server-name", "localhost", "--server-name", "10.0.0.5") == ExitCode.OK
    assert "localhost, 10.0.0.5" in capsys.readouterr().out
    value = run_json(tmp_path, capsys, "issue", "hermes", "--days", "10")
    assert value["name"] == "hermes"
    assert Path(str(value["certfile"])) == tmp_path / "certs" / "clients" / "hermes.pem"
    with pytest.raises(ConflictError):
        run(tmp_path, "init")


def test_table_fits_eighty_columns(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The overview is one line a certificate under a header, no wider than a terminal."""
    run(home, "issue", "claude-worker")
    run(home, "issue-job", "deadbeef", "--hours", "8")
    run(home, "revoke", "claude-worker")
    capsys.readouterr()
    run(home, "show")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["KIND", "NAME", "STATE", "UNTIL", "(UTC)", "LEFT"]
    assert len(lines) == 5
    assert max(map(len, lines)) <= 80
    assert "revoked" in lines[3]
    assert "8.0 h" in lines[4]


def test_show_details(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One certificate is shown with SANs, serial and state, also from a file."""
    run(home, "show", "server")
    text = capsys.readouterr().out
    assert "localhost, 127.0.0.1, ::1" in text
    path = str(home / "certs" / "server.pem")
    value = run_json(home, capsys, "show", path)
    assert value["sans"] == ["localhost", "127.0.0.1", "::1"]
    assert str(value["serial"]) in text
    assert value["revoked"] is False
    assert value["state"] == "valid"
    with pytest.raises(NotFoundError):
        run(home, "show", "nobody")


def test_a_further_server(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page's certificate is issued, shown, renewed and revoked by its name."""
    run(home, "init", "--force", "--server-name", "10.0.0.5", "--permit", "lan")
    issued = run_json(home, capsys, "issue-server", "page", "--server-name", "page.lan", "--days", "10")
    assert issued["certfile"] == str(home / "certs" / "servers" / "page.pem")
    assert run_json(home, capsys, "show", "page")["sans"] == ["page.lan"]
    run_json(home, capsys, "renew", "page", "--server-name", "localhost")
    assert run_json(home, capsys, "show", "page")["sans"] == ["localhost"]
    run(home, "revoke", "page")
    assert "rollover begin" in capsys.readouterr().out


def test_a_name_of_the_brokers_is_warned_of(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Clients go by the host name: a server that shares the broker's could pose as it."""
    assert run(home, "issue-server", "page", "--server-name", "localhost") == ExitCode.OK
    assert "localhost is the broker's, too" in capsys.readouterr().err
    run(home, "issue-server", "other", "--server-name", "127.0.0.2")
    assert capsys.readouterr().err == ""


def test_revoke_and_crl(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Revoking prints the serials and what the operator does next."""
    serial = run_json(home, capsys, "issue", "hermes")["serial"]
    assert run_json(home, capsys, "revoke", "hermes", "--reason", "superseded")["revoked"] == [serial]
    assert run_json(home, capsys, "show", "hermes")["state"] == "revoked"
    assert "next_update" in run_json(home, capsys, "crl", "--days", "90")


def test_renew(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`renew server` and `renew NAME` print the new end."""
    first = run_json(home, capsys, "show", "server")["serial"]
    assert run_json(home, capsys, "renew", "server", "--new-key")["serial"] != first
    run(home, "issue", "hermes", "--days", "10")
    assert str(run_json(home, capsys, "renew", "hermes")["not_after"]).endswith("Z")


def test_check_exit_codes(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 when all is well, 30 for errors, and for warnings with --strict."""
    assert run(home, "check") == ExitCode.OK
    assert "all is well" in capsys.readouterr().out
    (home / "certs").chmod(0o755)
    assert run(home, "check") == ExitCode.OK
    assert run(home, "check", "--strict") == ExitCode.INVALID
    (home / "certs" / "ca.key").chmod(0o644)
    assert run(home, "check") == ExitCode.INVALID
    assert f"chmod 600 {home}/certs/ca.key" in capsys.readouterr().out
    assert run_json(home, capsys, "check")["ok"] is False


def test_rollover_guides_from_step_to_step(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every step ends in the name of the next."""
    for step, following in (
        ("status", "begin"),
        ("begin", "switch"),
        ("switch", "finish"),
        ("finish", "begin"),
    ):
        value = run_json(home, capsys, "rollover", step)
        assert str(value["next"]).endswith(f"rollover {following}")
    with pytest.raises(ConflictError):
        run(home, "rollover", "cancel")


def test_rollover_says_what_it_ended(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last step says that it is done and who needs the files now; so does taking back."""
    for steps, words in ((("begin", "switch", "finish"), "finished: "), (("begin", "cancel"), "cancelled: ")):
        for step in steps:
            run(home, "rollover", step)
        assert words in capsys.readouterr().out


def test_prune_counts(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pruning names what it removed."""
    authority = CertificateAuthority(home / "certs")
    CertificateAuthority(authority.directory, backdate_seconds=3600).issue_job(
        "deadbeef", lifetime_seconds=60
    )
    assert run_json(home, capsys, "prune") == {"removed": ["deadbeef"]}


def test_refused_names_become_errors(home: Path) -> None:
    """A job id where a user belongs is refused with the right command."""
    with pytest.raises(InvalidInputError) as caught:
        run(home, "issue", "deadbeef")
    assert "issue-job" in caught.value.hint


def test_foreign_text_cannot_steer_the_terminal() -> None:
    """Control characters of a foreign certificate are printed as escapes."""
    finding = Finding(Level.WARNING, "a\x1b[2J", "b\n", "")
    assert finding.in_words().startswith("warning  a\\x1b[2J: b\\n")
