"""`jobwire registry ...` as people and scripts use it: real processes, exit codes, JSON."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jobwire.testing import new_home

Run = Callable[..., "subprocess.CompletedProcess[str]"]
JOBWIRE = Path(sys.executable).with_name("jobwire")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Give `run("list", ...)`: one command on the test's own home."""
    new_home(tmp_path / "home")

    def call(*words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        environ = {**os.environ, "JOBWIRE_HOME": str(tmp_path / "home"), "COLUMNS": "80"}
        return subprocess.run(
            [JOBWIRE, "registry", *words],
            input=stdin,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return call


def _json(result: "subprocess.CompletedProcess[str]") -> dict[str, object]:
    assert result.returncode == 0, result.stderr
    value = json.loads(result.stdout)
    assert isinstance(value, dict)
    return value


def test_life_of_a_job(run: Run, tmp_path: Path) -> None:
    """Registered, picked, renewed, released, picked again, cancelled: each step says what it did."""
    made = _json(
        run(
            "register",
            "--title",
            "build",
            "--instructions-file",
            "-",
            "--idempotency-key",
            "k",
            "--json",
            stdin="do\nit\n",
        )
    )
    job = str(made["job_id"])
    assert (made["created"], made["instructions"]) == (True, "do\nit\n")
    assert "exists already" in run("register", "--idempotency-key", "k").stdout
    picked = _json(run("pick", "--owner", "me", "--lease", "60", "--json"))
    assert (picked["job_id"], picked["status"]) == (job, "running")
    assert run("pick").returncode == 10
    assert "held until" in run("renew", job, "--for-attempt", "1").stdout
    assert run("renew", job, "--owner", "you").returncode == 3
    assert _json(run("release", job, "--owner", "me", "--json"))["attempt"] == 2
    assert "attempt      2" in run("pick").stdout
    assert "cancelled" in run("cancel", job, "--reason", "no need").stdout
    assert "before" in run("cancel", job).stdout
    shown = run("show", job, "--history", "10").stdout
    assert "no need" in shown
    assert "released by me" in shown


def test_tokens_are_never_printed(run: Run, tmp_path: Path) -> None:
    """No command prints a token, as words or as JSON."""
    job = str(_json(run("register", "--json"))["job_id"])
    token = json.loads((tmp_path / "home" / "jobs" / f"{job}.json").read_text())["auth_token"]
    results = [
        run(*words, *flags)
        for words in (["list"], ["show", job, "--history", "5"], ["update", job, "--title", "t"], ["pick"])
        for flags in ([], ["--json"])
    ]
    assert token not in "".join(result.stdout + result.stderr for result in results)


def test_update_refusal_as_json(run: Run) -> None:
    """A refused compare-and-set exits 20 and carries the present state."""
    job = str(_json(run("register", "--json"))["job_id"])
    result = run("update", job, "--title", "new", "--expect-status", "running", "--json")
    assert result.returncode == 20
    answer = json.loads(result.stdout)
    assert answer["updated"] is False
    assert (answer["present"]["status"], answer["present"]["last_seq"]) == ("pending", 0)
    assert json.loads(result.stderr)["exit_code"] == 20
    assert _json(run("update", job, "--title", "new", "--expect-seq", "0", "--json"))["updated"] is True


def test_the_usual_commands_need_no_registry_before_them(run: Run, tmp_path: Path) -> None:
    """`jobwire list`, `cancel` and `dismiss` are the registry's commands, word for word."""
    environ = {**os.environ, "JOBWIRE_HOME": str(tmp_path / "home"), "COLUMNS": "80"}

    def direct(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([JOBWIRE, *words], env=environ, capture_output=True, text=True, check=False)

    failed, other = (str(_json(run("register", "--json"))["job_id"]) for _ in range(2))
    run("pick", "--owner", "me")
    run("update", failed, "--status", "error")
    assert direct("list", "--json").stdout == run("list", "--json").stdout
    assert direct("dismiss", failed).stdout == f"dismissed {failed}\n"
    assert run("dismiss", failed).stdout == f"job {failed} was dismissed before\n"
    assert direct("dismiss", "--failed").stdout == "no failed jobs\n"
    assert direct("dismiss").returncode == 30
    assert direct("dismiss", other).returncode == 20
    assert direct("cancel", other).stdout == f"cancelled {other}\n"
    assert run("cancel", other).stdout == f"job {other} was cancelled before\n"


def test_list_for_people_and_programs(run: Run, tmp_path: Path) -> None:
    """The table fits 80 columns; --json prints one line a job."""
    run("register", "--title", "x" * 150, "--priority", "high")
    run("register", "--title", "second")
    table = run("list").stdout.splitlines()
    assert len(table) == 3
    assert all(len(line) <= 80 for line in table)
    lines = [json.loads(line) for line in run("list", "--json", "--status", "pending").stdout.splitlines()]
    assert [line["title"] for line in lines] == ["second", "x" * 150]
    assert run("list", "--status", "running").stdout == f"no jobs in {tmp_path / 'home'}\n"


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (("show", "00000000"), 40, "no job 00000000"),
        (("show", "../../etc"), 30, "not a job id"),
        (("register", "--title", "a\nb"), 30, "title"),
        (("register", "--broker", "password=x"), 30, "password"),
        (("register", "--broker", "colour=x"), 30, "colour"),
        (("register", "--instructions-file", "/nonexistent"), 30, "cannot read"),
        (("register", "--priority", "urgent"), 30, "invalid choice"),
        (("register", "--wall-timeout", "nan"), 30, "--wall-timeout"),
        (("renew", "00000000"), 30, "--for-attempt"),
        (("pick",), 10, "no pending job"),
        (("claim", "00000000"), 40, "no job 00000000"),
        (("claim", "nothing"), 30, "nothing"),
        (("list", "--limit", "-1"), 30, "--limit"),
    ],
)
def test_exit_codes(run: Run, words: tuple[str, ...], code: int, named: str) -> None:
    """Each failure has its code and a message that names the cause."""
    result = run(*words)
    assert result.returncode == code, result.stderr
    assert named in result.stderr
    assert "Traceback" not in result.stderr


def test_torn_record(run: Run, tmp_path: Path) -> None:
    """A record torn in half is exit code 50 with the place it was moved to, and `list` tells of it."""
    job = str(_json(run("register", "--json"))["job_id"])
    path = tmp_path / "home" / "jobs" / f"{job}.json"
    path.write_bytes(path.read_bytes()[:100])
    for _ in range(2):
        result = run("show", job)
        assert result.returncode == 50
        assert "quarantine" in result.stderr
    assert job in run("list").stderr
    answer = _json(run("reindex", "--json"))
    assert answer["jobs"] == 0
    assert len(answer["quarantine"]) == 1  # type: ignore[arg-type]  # a list, as printed
