"""`jobwire agent`, `jobwire wait`, `inbox watch` and `inbox wait-reply` as agents call them."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobwire.cli.main import main
from jobwire.testing.waiting import wait_for


class Shell:
    """Runs commands on one home, in this process, and reads the object that they print."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self._capsys = capsys

    def __call__(self, *words: str, code: int = 0) -> dict[str, Any]:
        """Run one command with --json; it must end with `code`."""
        self._capsys.readouterr()
        found = main([*words, "--home", str(self.home), "--json"])
        said = self._capsys.readouterr()
        assert found == code, said
        answer: dict[str, Any] = json.loads(said.out)
        assert answer["ok"] is (code == 0)
        return answer

    def send(self, sender: str, to: str, kind: str, *more: str) -> dict[str, Any]:
        """Send a message; return what is printed."""
        words = ("--agent", sender, "--to", to, "--kind", kind, "--summary", f"{kind} of {sender}")
        return self("inbox", "send", *words, *more)

    def background(self, *words: str) -> "subprocess.Popen[str]":
        """Start one command with --json in a process of its own."""
        command = [sys.executable, "-m", "jobwire.cli.main", *words, "--home", str(self.home), "--json"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Give a home with a store, and nobody to be."""
    for name in ("JOBWIRE_AGENT", "JOBWIRE_JOB", "JOBWIRE_DB", "JOBWIRE_HOME"):
        monkeypatch.delenv(name, raising=False)
    one = Shell(tmp_path / ".hermes", capsys)
    one("inbox", "init")
    return one


def test_an_agent_joins_works_and_leaves(shell: Shell) -> None:
    """What an agent says of itself is what the others are shown."""
    joined = shell("agent", "join", "--agent", "builder", "--role", "parser,tests", "--interval", "20")
    assert joined["command"] == "join"
    shell("agent", "beat", "--agent", "builder", "--task", "T7", "--progress", "40")
    (view,) = shell("agent", "list")["agents"]
    assert view["agent_id"] == "builder"
    assert view["liveness"] == "fresh"
    assert (view["status"], view["current_task"], view["progress"]) == ("working", "T7", 0.4)
    assert (view["roles"], view["interval_seconds"], view["kind"]) == (["parser", "tests"], 20, "worker")
    shell("agent", "leave", "--agent", "builder")
    assert shell("agent", "list")["agents"] == []
    assert shell("agent", "beat", "--agent", "nobody", code=40)["error"]["code"] == "agent_not_found"
    assert shell("agent", "join", "--agent", "0a1b2c3d", code=30)["error"]["code"] == "invalid_input"


def test_a_job_joins_as_no_person(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a job nobody becomes the person who may answer."""
    monkeypatch.setenv("JOBWIRE_JOB", "0a1b2c3d")
    assert shell("agent", "join", "--agent", "a", "--kind", "person", code=30)["error"]["code"] == "forbidden"


def test_a_question_waits_for_its_answer(shell: Shell) -> None:
    """`wait-reply` prints the answer and the cursor of the next wait, which then ends with 10."""
    asked = shell(
        "inbox", "send", "--agent", "worker", "--to", "lead", "--kind", "question", "--summary", "?"
    )
    thread = asked["thread_id"]
    waiting = shell.background("inbox", "wait-reply", "--agent", "worker", "--thread", thread)
    answer = shell.send("lead", "worker", "answer", "--thread", thread, "--body", "8883")
    said = json.loads(waiting.communicate(timeout=60)[0])
    assert waiting.returncode == 0
    assert {"ok", "command", "woke", "next_event_id", "message"} <= said.keys()
    assert (said["command"], said["woke"], said["next_event_id"]) == ("wait-reply", True, answer["event_id"])
    assert (said["message"]["kind"], said["message"]["body"]) == ("answer", "8883")
    again = shell(
        "inbox", "wait-reply", "--agent", "worker", "--thread", thread, "--timeout-seconds", "0.01",
        "--after-event", str(said["next_event_id"]), code=10,
    )  # fmt: skip
    assert (again["woke"], again["next_event_id"], again["error"]["code"]) == (
        False,
        answer["event_id"],
        "timeout",
    )
    assert again["error"]["exit_code"] == 10


def test_watching_and_waiting_by_name(shell: Shell) -> None:
    """A task ends the recipient's watch; an event of a name ends who waits for that."""
    begun = shell("agent", "list")["event_id"]
    shell(
        "inbox",
        "send",
        "--agent",
        "lead",
        "--to",
        "worker",
        "--type",
        "PROGRESS",
        "--task",
        "T1",
        "--summary",
        "go",
    )
    watched = shell("inbox", "watch", "--agent", "worker", "--status", "pending,blocked")
    assert (watched["woke"], watched["thread"]["assigned_to"]) == (True, "worker")
    waited = shell("wait", "PROGRESS_*", "--after-event", str(begun))
    assert (waited["command"], waited["event"]["names"]) == ("wait", ["PROGRESS_T1"])
    assert shell("wait", "PROGRESS_*", "--timeout-seconds", "0", code=10)["woke"] is False


def test_beats_while_a_process_lives_survive_its_kill(shell: Shell) -> None:
    """`beat --while-pid` ends with its process, and the others see that it stopped."""
    sleeper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    beating = shell.background(
        "agent", "beat", "--agent", "builder", "--while-pid", str(sleeper.pid), "--interval", "0.05"
    )

    def status() -> str:
        return "".join(view["status"] for view in shell("agent", "list")["agents"])

    wait_for(lambda: status() == "working", deadline_seconds=60)
    os.kill(sleeper.pid, signal.SIGKILL)
    sleeper.wait()
    assert sleeper.stdin is not None
    sleeper.stdin.close()
    said, _ = beating.communicate(timeout=60)
    assert (beating.returncode, json.loads(said)["status"]) == (0, "stopped")
    assert status() == "stopped"


def test_a_killed_waiter_leaves_nothing_behind(shell: Shell) -> None:
    """Kill -9 of a waiter costs nobody anything: the next wait finds what came meanwhile."""
    thread = shell("inbox", "send", "--agent", "w", "--to", "lead", "--kind", "question", "--summary", "?")[
        "thread_id"
    ]
    waiting = shell.background("inbox", "wait-reply", "--agent", "w", "--thread", thread)
    wait_for((shell.home / "wake").exists, deadline_seconds=60)
    waiting.kill()
    waiting.communicate()
    shell(
        "inbox",
        "send",
        "--agent",
        "lead",
        "--to",
        "w",
        "--thread",
        thread,
        "--kind",
        "answer",
        "--summary",
        "!",
    )
    assert shell("inbox", "wait-reply", "--agent", "w", "--thread", thread)["message"]["summary"] == "!"


def test_a_full_disk_behind_stdout_is_told_elsewhere(shell: Shell) -> None:
    """Where the answer cannot be written, stderr has the object that says so, and the exit code is 50."""
    program = [sys.executable, "-m", "jobwire.coordination.cli", "list", "--home", str(shell.home), "--json"]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 50
    assert json.loads(ended.stderr)["error"]["errno"] == errno.ENOSPC
