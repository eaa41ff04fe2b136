"""`jobwire lock` as agents and git use it: one object on stdout, exit codes, a hook that git runs."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobwire.coordination.locks.cli import LOCK
from jobwire.testing import new_home

Lock = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder with a home."""
    new_home(tmp_path / ".hermes")
    monkeypatch.chdir(tmp_path)
    for name in ("JOBWIRE_HOME", "JOBWIRE_DB", "JOBWIRE_AGENT", "JOBWIRE_JOB"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def lock(folder: Path, capfd: pytest.CaptureFixture[str]) -> Lock:
    """Give the command: words in, the object out; `code` is the exit code that is expected."""

    def run(*words: str, code: int = 0) -> dict[str, Any]:
        try:
            found = LOCK.main([words[0], "--json", *words[1:]])
        except SystemExit as error:
            found = int(str(error.code))
        said = capfd.readouterr()
        assert found == code, said
        body: dict[str, Any] = json.loads(said.out.splitlines()[-1])
        assert body["ok"] is (code == 0)
        return body

    return run


def test_the_way_of_an_agent(lock: Lock) -> None:
    """Acquire prints path, end and token; the second agent gets 20, and the lock once it is released."""
    taken = lock("acquire", "src/../src/app.py", "--agent", "a", "--ttl", "60")
    assert (taken["locks"][0]["path"], taken["locks"][0]["lease_seconds"]) == ("src/app.py", 60.0)
    refused = lock("acquire", "src", "--agent", "b", code=20)["error"]
    assert (refused["code"], refused["holder"], refused["path"]) == ("locked", "a", "src/app.py")
    assert lock("check", "src/app.py", "--agent", "b", code=20)["locks"][0]["agent"] == "a"
    lock("check", "src/app.py", "--agent", "a")
    held = taken["event_id"]
    waited = lock("wait", "src", "--agent", "b", "--timeout-seconds", "0", code=10)
    assert (waited["woke"], waited["event_id"]) == (False, held)
    queued = lock("acquire", "src", "--agent", "b", "--wait", "0.01", code=10)
    assert (queued["woke"], queued["error"]["code"]) == (False, "timeout")
    assert queued["event_id"] >= held
    lock("renew", "src/app.py", "--agent", "a", "--token", str(taken["token"]))
    assert lock("renew", "--all", "--agent", "a", "--token", "999", code=20)["error"]["code"] == "lease_lost"
    assert [one["path"] for one in lock("list")["locks"]] == ["src/app.py"]
    lock("release", "--all", "--agent", "a")
    assert lock("acquire", "src", "--agent", "b")["token"] > taken["token"]
    assert lock("deadlocks")["deadlocks"] == []


@pytest.mark.parametrize(
    ("words", "code", "word"),
    [
        (("acquire", "/", "--agent", "a"), 30, "invalid_input"),
        (("acquire", "..", "--agent", "a"), 30, "invalid_input"),
        (("acquire", "a\nb", "--agent", "a"), 30, "invalid_input"),
        (("acquire", "", "--agent", "a"), 30, "invalid_input"),
        (("acquire", "x" * 5000, "--agent", "a"), 30, "invalid_input"),
        (("acquire", os.fsdecode(b"\xff"), "--agent", "a"), 30, "invalid_input"),
        (("acquire", "x", "--agent", "a", "--ttl", "-1"), 30, "invalid_input"),
        (("acquire", "x", "--agent", "a", "--ttl", "1e300"), 30, "invalid_input"),
        (("acquire", *(f"f{n}" for n in range(1001)), "--agent", "a"), 30, "too_large"),
        (("acquire", "x"), 30, "invalid_input"),
        (("acquire", "x", "--agent", "0a1b2c3d"), 30, "invalid_input"),
        (("release", "--agent", "a"), 30, "invalid_input"),
        (("release", "x", "--agent", "a"), 20, "lease_lost"),
        (("break", "x", "--agent", "a", "--confirm"), 20, "not_expected"),
        (("run", "--agent", "a", "x", "true"), 30, "invalid_input"),
        (("run", "--agent", "a", "x", "--", "/not/there"), 40, "invalid_input"),
    ],
)
def test_what_is_refused(lock: Lock, words: tuple[str, ...], code: int, word: str) -> None:
    """Bad paths, times, names and uses: a code, a word, a message, and no lock is left."""
    assert lock(*words, code=code)["error"]["code"] == word
    assert lock("list")["locks"] == []


def test_a_command_runs_while_its_files_are_held(lock: Lock, folder: Path) -> None:
    """`lock run` gives the command's exit code, holds the lock while it runs and gives it back after it."""
    inner = 'import sys; from jobwire.coordination.locks.cli import LOCK; sys.exit(LOCK.main(["list"]))'
    script = f"{sys.executable} -c '{inner}' > seen; exit 7"
    assert LOCK.main(["run", "--agent", "a", "src/app.py", "--", "sh", "-c", script]) == 7
    assert "src/app.py" in (folder / "seen").read_text()
    assert lock("list")["locks"] == []


def test_git_refuses_what_somebody_else_holds(lock: Lock, folder: Path) -> None:
    """The hook stops a commit that touches another's file, names him, and lets everything else pass."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "JOBWIRE_AGENT": "b",
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    who = ("-c", "user.name=b", "-c", "user.email=b@example.org")

    def git(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["git", *who, *words], env=environment, text=True, capture_output=True, timeout=60, check=False
        )

    git("init", "-q")
    hook = folder / ".git" / "hooks" / "pre-commit"
    hook.write_text(str(lock("hook")["hook"]))
    hook.chmod(0o755)
    name = 'a "b"  c.py'
    for path in (name, "free.py"):
        (folder / path).write_text("x\n")
    git("add", name, "free.py")
    lock("acquire", "--agent", "a", "name:other", "free.py")
    refused = git("commit", "-qm", "both")
    assert refused.returncode != 0
    assert "free.py (a)" in refused.stderr
    lock("release", "--all", "--agent", "a")
    passed = git("commit", "-qm", "both")
    assert passed.returncode == 0, passed.stderr


def test_who_is_to_confirm_sees_it(lock: Lock, capfd: pytest.CaptureFixture[str]) -> None:
    """The list says which lock somebody wants to end, why, and how another agent confirms it."""
    lock("acquire", "x", "--agent", "a")
    lock("break", "x", "--agent", "b", "--reason", "gone home")
    assert LOCK.main(["list"]) == 0
    last = capfd.readouterr().out.splitlines()[-1]
    assert last.startswith("b asks to break a's lock on x (gone home)")
    assert "--confirm" in last
