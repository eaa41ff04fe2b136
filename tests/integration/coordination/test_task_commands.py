"""`jobwire tasks` as a command: one object on every path, and its exit code."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobwire.api.home import Home
from jobwire.cli.main import main
from jobwire.core.clock import epoch
from jobwire.delivery.signing import Draft
from jobwire.registry.event_log import HomeEventLog
from jobwire.registry.store import RecordStore

Said = dict[str, Any]
Run = Callable[..., tuple[int, Said]]
PLAN = """\
## Acceptance
1. make test

## Tasks
| ID | Title | Owner | Depends on | Accept |
|----|-------|-------|------------|--------|
| T1 | write | builder | - | 1 |
| T2 | ship "it" | tester | T1 | - |
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Give a home."""
    return Home.make(tmp_path / ".hermes")


@pytest.fixture
def run(home: Home, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Give what runs `jobwire tasks ... --json` and returns its exit code and its object."""
    monkeypatch.setenv("JOBWIRE_HOME", str(home.path))
    for name in ("JOBWIRE_AGENT", "JOBWIRE_JOB", "JOBWIRE_LEASE", "JOBWIRE_DB"):
        monkeypatch.delenv(name, raising=False)

    def call(*words: str, agent: str = "lead") -> tuple[int, Said]:
        code = main(["tasks", *words, "--agent", agent, "--json"])
        return code, json.loads(capfd.readouterr().out)

    return call


def test_a_plan_is_imported_once_worked_off_and_drawn(run: Run, tmp_path: Path) -> None:
    """A dry run changes nothing; a second import adds nothing; Mermaid's labels hold no quote."""
    plan = tmp_path / "plan.md"
    plan.write_text(PLAN, encoding="utf-8")
    assert run("import", str(plan), "--dry-run")[1]["added"] == 2
    assert run("list")[1]["tasks"] == []
    assert run("import", str(plan))[1]["added"] == 2
    assert run("import", str(plan))[1]["duplicates"] == 2
    assert run("claim", "T2", agent="tester")[1]["error"]["code"] == "deps_blocked"
    code, claimed = run("claim", agent="builder")
    assert (code, claimed["task"]["task_id"], claimed["task"]["acceptance"]) == (0, "T1", ["make test"])
    assert run("complete", "T1", "--summary", "done", agent="builder")[1]["task"]["status"] == "completed"
    assert [one["task_id"] for one in run("list", "--status", "ready")[1]["tasks"]] == ["T2"]
    drawn = run("graph", "--mermaid")[1]["graph"]
    assert 'n1["T2: ship #quot;it#quot;"]:::ready' in drawn
    assert "n0 --> n1" in drawn
    plan.write_text(PLAN.replace("write", "rewrite"), encoding="utf-8")
    assert run("import", str(plan))[1]["error"]["code"] == "duplicate_id"


def test_what_a_job_says_by_itself_makes_the_next_task_ready(run: Run, home: Home) -> None:
    """A claim of whatever is ready sees how jobs ended, also where no process looks after the home."""
    run("add", "--title", "a", "--task", "a", "--owner", "builder")
    run("add", "--title", "b", "--task", "b", "--owner", "builder", "--depends-on", "a")
    job = run("claim", agent="builder")[1]["task"]["job_id"]
    events = HomeEventLog(RecordStore(home.path), job, attempt=1)
    for word in ("started", "completed"):
        events.append(Draft(word, "", {}))
    code, claimed = run("claim", agent="builder")
    assert (code, claimed["task"]["task_id"]) == (0, "b")


def test_each_refusal_has_its_word_and_exit_code(run: Run) -> None:
    """10, 20, 30 and 40, with the object on stdout."""
    run("add", "--title", "a", "--task", "a", "--owner", "builder", "--review", "required")
    refusals = [
        run("claim", agent="nobody"),
        run("claim", "a", agent="mallory"),
        run("claim", "a", "--expect-version", "9", agent="builder"),
        run("add", "--title", "b", "--depends-on", "zz"),
        run("add", "--title", "b", "--task", "b", "--depends-on", "b"),
        run("cancel", "a", agent="mallory"),
        run("show", "zz"),
    ]
    assert [(code, said["error"]["code"]) for code, said in refusals] == [
        (10, "no_match"),
        (20, "owner_mismatch"),
        (20, "not_expected"),
        (30, "dependency_unknown"),
        (30, "dependency_cycle"),
        (30, "forbidden"),
        (40, "task_not_found"),
    ]


def test_what_a_task_waits_for_is_told_to_programs_and_people(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    """A program reads on, ref and since when; the table shows a delay and a review as it shows tasks."""
    for name, *options in (("a", "--review", "required"), ("b", "--depends-on", "a"), ("c",)):
        run("add", "--title", name, "--task", name, "--owner", "builder", *options)
    waiting = run("show", "b")[1]["task"]["waiting"]
    assert (waiting["on"], waiting["ref"]) == ("dependency", "a")
    assert epoch(waiting["since"]) == pytest.approx(waiting["since_ms"] / 1000, abs=0.002)
    for name, words in (("a", ("complete", "a", "--summary", "so")), ("c", ("fail", "c", "--reason", "so"))):
        run("claim", name, agent="builder")
        run(*words, agent="builder")
    assert main(["tasks", "list"]) == 0
    header, *lines = capfd.readouterr().out.splitlines()
    place = slice(header.index("WAITS FOR"), header.index("TITLE"))
    assert [line[place].strip() for line in lines] == ["review", "dependency a", "retry"]
