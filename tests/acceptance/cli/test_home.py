"""Where commands find their home, as people use it: real processes in real directories."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobwire.registry.store import RecordStore
from jobwire.testing import new_home

BIN = Path(sys.executable).parent
NOBODY = 65534
# To it, what belongs to others is closed as to any user. (Another user may not see this virtual environment.)
POWERLESS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files to another user")


def say(
    directory: Path, *words: str, powerless: bool = False, **environ: str
) -> "subprocess.CompletedProcess[str]":
    """Run `jobwire` (or another program of ours) in a directory, on request without root's powers."""
    program, *more = words if words[0] in {"publish_event", "job_subscriber"} else ("jobwire", *words)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("JOBWIRE_", "MQTT_"))}
    return subprocess.run(
        [*(POWERLESS if powerless else ()), BIN / program, *more],
        cwd=directory,
        env={**clean, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_init_makes_a_home_that_is_found_from_below(tmp_path: Path) -> None:
    """`jobwire init`, then commands in any directory below work on that home and name it."""
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)
    made = say(tmp_path, "init")
    assert made.returncode == 0, made.stderr
    assert f"made the home {tmp_path}/.hermes" in made.stdout
    assert "jobwire up" in made.stdout
    assert (tmp_path / ".hermes").stat().st_mode & 0o777 == 0o700
    registered = say(below, "registry", "register", "--title", "x")
    job = registered.stdout.split()[1]
    assert registered.stdout == f"registered {job} in {tmp_path}/.hermes\n"
    assert job in say(tmp_path, "registry", "list").stdout
    assert say(below, "status", "--line").stdout == "0 running\n"
    said = json.loads(say(below, "registry", "register", "--json").stdout)
    assert said["home"] == f"{tmp_path}/.hermes"
    assert [path.name for path in tmp_path.rglob(".hermes")] == [".hermes"]


def test_init_again_changes_nothing(tmp_path: Path) -> None:
    """A second `init` says that the home is there; its jobs stay."""
    assert json.loads(say(tmp_path, "init", "--json").stdout) == {
        "home": f"{tmp_path}/.hermes",
        "created": True,
    }
    say(tmp_path, "registry", "register")
    again = say(tmp_path, "init", "--json")
    assert json.loads(again.stdout)["created"] is False
    assert len(list(RecordStore(tmp_path / ".hermes").job_ids())) == 1


def test_init_makes_it_where_it_is_told(tmp_path: Path) -> None:
    """`init DIR` makes DIR/.hermes, --home and JOBWIRE_HOME name the home itself; both at once is invalid."""
    assert say(tmp_path, "init", "project").returncode == 0
    assert (tmp_path / "project" / ".hermes" / "jobs").is_dir()
    named = say(tmp_path, "--home", "srv", "init")
    assert f"--home {tmp_path}/srv" in named.stdout
    assert say(tmp_path, "init", JOBWIRE_HOME=str(tmp_path / "env")).returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"project", "srv", "env"}
    assert say(tmp_path, "--home", "srv", "init", "project").returncode == 30
    assert say(tmp_path, "init", "").returncode == 30


def test_init_below_another_home_says_so(tmp_path: Path) -> None:
    """A second home inside of a project splits its jobs: made where it was asked for, and said."""
    new_home(tmp_path / ".hermes")
    (tmp_path / "part").mkdir()
    made = say(tmp_path / "part", "init")
    assert f"no longer {tmp_path}/.hermes" in made.stderr
    assert (tmp_path / "part" / ".hermes").is_dir()


def test_a_status_bar_without_a_home_is_empty(tmp_path: Path) -> None:
    """`status --line` prints no figures where there are none to know, and a short reason on stderr."""
    said = say(tmp_path, "status", "--line")
    assert (said.returncode, said.stdout) == (40, "")
    assert len(said.stderr.splitlines()) == 2
    as_json = say(tmp_path, "status", "--json")
    assert (as_json.stdout, json.loads(as_json.stderr)["exit_code"]) == ("", 40)


def test_a_ticket_needs_no_home(tmp_path: Path) -> None:
    """A worker on another host has a ticket and nothing else; what is wrong is then the ticket."""
    (tmp_path / "ticket").write_text("{}")
    (tmp_path / "ticket").chmod(0o600)
    for program, more in (("publish_event", ["--event", "started"]), ("job_subscriber", [])):
        said = say(tmp_path, program, "--ticket", "ticket", *more)
        assert said.returncode == 30, said.stderr
        assert "home" not in said.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["ticket"]


@ROOT_ONLY
def test_a_strangers_home_above_is_refused(tmp_path: Path) -> None:
    """Below a home of another user commands stop, until that home is named."""
    home = new_home(tmp_path / ".hermes")
    for path in (home, *home.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    for words in (["registry", "register"], ["status", "--line"], ["broker", "up"], ["run", "--", "true"]):
        said = say(tmp_path, *words)
        assert (said.returncode, said.stdout) == (30, ""), words
        assert "belongs to user 65534" in said.stderr
        assert f"--home {home}" in said.stderr
    assert say(tmp_path, "--home", ".hermes", "status", "--line").stdout == "0 running\n"
    assert say(tmp_path, "status", "--line", JOBWIRE_HOME=".hermes").stdout == "0 running\n"


@ROOT_ONLY
@pytest.mark.parametrize("closed", [".hermes", ".hermes/jobs", ".hermes/jobs/*.json", ".hermes/queue"])
def test_an_unreadable_home_is_never_an_all_clear(closed: str, tmp_path: Path) -> None:
    """Who may not read the records gets an error and no figures, also where only a part is closed."""
    new_home(tmp_path / ".hermes")
    for words in (["register"], ["pick", "--owner", "me"]):
        assert say(tmp_path, "registry", *words).returncode == 0
    assert say(tmp_path, "status", "--line").stdout == "1 running\n"
    for path in tmp_path.glob(closed):
        os.chown(path, NOBODY, NOBODY)
    for words in (["status", "--line"], ["status"], ["top", "--once"], ["registry", "list"], ["doctor"]):
        said = say(tmp_path, "--home", ".hermes", *words, powerless=True)
        assert said.returncode in {30, 50}, (words, said)
        assert "running" not in said.stdout
        assert "no jobs" not in said.stdout
        assert "Traceback" not in said.stderr
