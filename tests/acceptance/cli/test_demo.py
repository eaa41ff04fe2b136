"""`jobwire demo`: what a newcomer sees first."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobwire.testing import wait_for

ROOT = Path(__file__).resolve().parents[3]


# Whole demos, beside other tests.
pytestmark = pytest.mark.timeout(400)


def demo(directory: Path, *words: str) -> list[str]:
    """Return the demo's command line."""
    place = ["--directory", str(directory), "--source", str(ROOT / "core")]
    return [sys.executable, "-m", "jobwire.cli.main", "demo", *place, *words]


def of_session(directory: Path) -> list[int]:
    """Return the processes that mention the demo's directory and are not this test."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if str(directory).encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_the_demo_shows_three_jobs_and_leaves_nothing(tmp_path: Path) -> None:
    """All three jobs end as they should, exit code 0, and no process stays behind."""
    directory = tmp_path / "demo"
    answer = subprocess.run(demo(directory), capture_output=True, text=True, timeout=300, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.count(" yes") == 3
    assert "permission_required" in answer.stdout
    assert "answered by you" in answer.stdout
    assert "what Spark made of the journal" in answer.stdout
    counted = re.search(r"^(\d+) events: (.*)$", answer.stdout, re.MULTILINE)
    assert counted
    assert int(counted[1]) == sum(map(int, re.findall(r"\d+", counted[2])))
    assert of_session(directory) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_ends_everything(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C, SIGTERM or a closed terminal in the middle: the demo ends what it started."""
    directory = tmp_path / "demo"
    process = subprocess.Popen(
        demo(directory, "--no-metrics"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for(lambda: list(directory.glob(".hermes/jobs/*.json")), deadline_seconds=60, what="jobs to appear")
    process.send_signal(number)
    output = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert of_session(directory) == []


def test_without_java_the_demo_says_so_and_goes_on(tmp_path: Path) -> None:
    """No Java: the three jobs are shown, and one plain line says what is missing."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sha256sum").symlink_to(str(shutil.which("sha256sum")))
    bare = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    command = demo(tmp_path / "demo", "--json")
    answer = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=bare)
    assert answer.returncode == 0, answer.stderr
    assert "metrics: left out: metrics are computed by Spark, which needs Java" in answer.stderr
    assert [job["exit_code"] for job in json.loads(answer.stdout)["jobs"]] == [0, 1, 0]


def test_a_directory_that_is_not_the_demos_is_left_alone(tmp_path: Path) -> None:
    """The demo never deletes what it did not make."""
    (tmp_path / "precious").touch()
    answer = subprocess.run(demo(tmp_path, "--json"), capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 30
    assert json.loads(answer.stderr)["exit_code"] == 30
    assert (tmp_path / "precious").exists()


def test_a_team_works_off_a_plan(tmp_path: Path) -> None:
    """Four tasks by three agents: one asks and is answered, one fails once, one is reviewed and sent back."""
    directory = tmp_path / "demo"
    command = demo(directory, "--team", "--no-metrics", "--json")
    answer = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    found = json.loads(answer.stdout)
    assert [(one["task"], one["status"], one["runs"]) for one in found["tasks"]] == [
        ("parser", "completed", 1),
        ("tests", "completed", 2),
        ("docs", "completed", 2),
        ("release", "completed", 1),
    ]
    for words in (
        "Which tables shall it read?",
        "exit status 1",
        "an example is missing",
        "version 1 is out",
    ):
        assert words in answer.stderr
    assert of_session(directory) == []
