"""The texts that are given to agents: each command in them works as it stands, in the order they teach."""

import json
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobwire.cli.arguments import ROLES
from jobwire.cli.main import main
from jobwire.cli.skill import commands_in, skill_text
from jobwire.coordination.cli import main as inbox
from jobwire.jobs.requests import Answer
from jobwire.publisher.publisher import Publisher
from jobwire.registry.queue import JobQueue
from jobwire.registry.requests import AskedJob, give_answer, open_in
from jobwire.registry.store import RecordStore
from jobwire.storage.wake import wait_until

Said = dict[str, Any]
HOME = ".hermes"
MEMBER = """#!/bin/sh
case $JOBWIRE_PHASE in
  ASSESSING) jobwire board assess "$JOBWIRE_BOARD" --verdict APPROVE ;;
  DISCUSSING) jobwire board pass "$JOBWIRE_BOARD" ;;
  VOTING) jobwire board vote "$JOBWIRE_BOARD" --verdict APPROVE ;;
esac
"""


class Rehearsal:
    """One agent that does what its text says, in a home of its own; others act in between."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self.names: dict[str, str] = {}
        self.others: list[threading.Thread] = []
        self._capfd = capfd

    def run(self, line: str) -> Said:
        """Run one line; learn from what it says which ids the next ones need."""
        program, *words = shlex.split(line)
        words = [self.names.get(word, word) for word in words]
        code = {"inbox": inbox, "jobwire": main}[program](words)
        said = self._capfd.readouterr()
        assert code == 0, (line, said)
        body: Said = json.loads(said.out)
        assert body["ok"] is True, line
        thread = body.get("thread", {})
        found = {
            "THREAD": thread.get("thread_id"),
            "JOB": thread.get("job_id"),
            "TASK": body.get("task", {}).get("task_id"),
            "BOARD": body.get("board_id"),
        }
        self.names |= {name: value for name, value in found.items() if value}
        return body

    def rehearse(self, role: str, before: dict[str, Callable[[], object]]) -> list[Said]:
        """Run all lines of a role's text; before a line that begins with a key its action is done."""
        answers = []
        for line in commands_in(skill_text(role)):
            for words in [words for words in before if words in line]:
                before.pop(words)()
            answers.append(self.run(line))
        assert not before
        return answers

    def beside(self, act: Callable[[], object]) -> None:
        """Let somebody else act at the same time."""
        self.others.append(threading.Thread(target=act))
        self.others[-1].start()


@pytest.fixture
def rehearsal(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Iterator[Rehearsal]:
    """Give an agent, whom the environment names, in a fresh home."""
    monkeypatch.chdir(tmp_path)
    for name in ("JOBWIRE_HOME", "JOBWIRE_DB", "JOBWIRE_LEASE", "JOBWIRE_JOB", "JOBWIRE_TICKET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JOBWIRE_AGENT", request.param)
    one = Rehearsal(capfd)
    one.run("inbox init --json")
    yield one
    for thread in one.others:
        thread.join(60)
        assert not thread.is_alive()


def queue() -> JobQueue:
    """Return the jobs of the home."""
    return JobQueue(RecordStore(Path(HOME)), warn=pytest.fail)


def asked() -> AskedJob:
    """Wait until somebody asks something, and return it."""
    found = wait_until(lambda: next(iter(open_in(queue())), None), home=HOME, names=["requests"], seconds=60)
    assert found is not None
    return found


@pytest.mark.parametrize("rehearsal", ["builder"], indirect=True)
def test_a_worker_does_what_its_text_says(rehearsal: Rehearsal) -> None:
    """Fetch, claim, update, ask a person, done; block and be answered; fail; wait for more; locks."""

    def send() -> None:
        rehearsal.run('inbox send --json --agent lead --to builder --subject "fix it"')

    def begin_another() -> None:
        send()
        rehearsal.run("inbox claim --json --thread THREAD")

    def answer() -> None:
        one = asked()
        give_answer(queue(), one.request.id, Answer("yes", "someone", "test"))

    answers = rehearsal.rehearse(
        "worker",
        {
            "inbox fetch": send,
            "jobwire ask": lambda: rehearsal.beside(answer),
            "--status blocked": begin_another,
            "inbox wait-reply": lambda: rehearsal.run(
                "inbox reply --json --agent lead --thread THREAD --summary main"
            ),
            "inbox watch": send,
            "tasks claim": lambda: rehearsal.run(
                "jobwire tasks add --json --agent lead --owner builder --title more"
            ),
        },
    )
    statuses = [body["thread"]["status"] for body in answers if body["command"] in {"done", "fail"}]
    assert statuses == ["done", "failed"]
    assert [body["answer"] for body in answers if body["command"] == "ask"] == ["yes"]


@pytest.mark.parametrize("rehearsal", ["lead"], indirect=True)
def test_a_lead_does_what_its_text_says(rehearsal: Rehearsal) -> None:
    """Send, be told of a worker that is blocked, reply, wait; search, cancel; pass on a person's answer."""

    def block() -> None:
        rehearsal.run("inbox claim --json --agent builder --thread THREAD")
        rehearsal.run(
            'inbox update --json --agent builder --thread THREAD --status blocked --summary "where?"'
        )

    def give_up() -> None:
        rehearsal.run("jobwire tasks claim --json --agent builder T1")
        rehearsal.run("jobwire tasks fail --json --agent builder T1 --summary broken --permanent")

    def ask() -> None:
        rehearsal.run("inbox send --json --agent lead --to builder --subject more")
        rehearsal.run("inbox claim --json --agent builder --thread THREAD")
        rehearsal.run("inbox update --json --agent builder --thread THREAD --summary begun")
        publisher = Publisher(rehearsal.names["JOB"], home=HOME, environ={})
        rehearsal.beside(lambda: publisher.ask("push?", choices=["yes", "no"], timeout_seconds=60))
        rehearsal.names["REQUEST"] = asked().request.id

    rehearsal.rehearse(
        "lead",
        {
            "inbox watch": block,
            "inbox wait-reply": lambda: rehearsal.run(
                'inbox update --json --agent builder --thread THREAD --summary "half"'
            ),
            "jobwire feed": ask,
            "tasks retry": give_up,
        },
    )


@pytest.mark.parametrize("rehearsal", ["ann"], indirect=True)
def test_a_reviewer_does_what_its_text_says(rehearsal: Rehearsal) -> None:
    """Look at what is in review, send it back with the reason, and approve what comes again."""

    def work() -> None:
        rehearsal.run("jobwire tasks claim --json --agent builder TASK")
        rehearsal.run("jobwire tasks complete --json --agent builder TASK --summary done")

    def hand_in() -> None:
        rehearsal.run("jobwire tasks add --json --agent lead --owner builder --title fix --reviewers ann")
        work()
        rehearsal.names["THREAD"] = rehearsal.run("jobwire tasks show --json TASK")["task"]["thread_id"]

    answers = rehearsal.rehearse("reviewer", {"tasks list": hand_in, "review approve": work})
    assert answers[-1]["task"]["status"] == "completed"


@pytest.mark.parametrize("rehearsal", ["CSO"], indirect=True)
def test_a_director_does_what_its_text_says(rehearsal: Rehearsal) -> None:
    """From the assessment through the talk and the vote to the resolution; and a board of its own."""
    Path("plan.md").write_text("We launch on Monday.", encoding="utf-8")

    def other(words: str) -> Callable[[], object]:
        return lambda: rehearsal.run(f"jobwire board {words} --json --agent CA")

    def pass_twice() -> None:
        other("pass BOARD")()
        # The last round: this one's own word ends it.
        rehearsal.run("jobwire board pass --json BOARD")
        other("pass BOARD")()

    def write_member() -> None:
        member = Path("member.sh")
        jobwire = f"{shlex.quote(sys.executable)} -m jobwire.cli.main"
        member.write_text(MEMBER.replace("jobwire", jobwire), encoding="utf-8")
        member.chmod(0o700)

    def keep() -> None:
        said = rehearsal.run("jobwire board resolve --json BOARD")
        Path("resolution.json").write_text(json.dumps(said), encoding="utf-8")

    answers = rehearsal.rehearse(
        "director",
        {
            "board list": other(
                "open --checkpoint PRE_LAUNCH --proposal plan.md --member CSO --member CA --rounds 3"
            ),
            "board wait": other("assess BOARD --verdict APPROVE"),
            "board pass": other("pass BOARD"),
            "board vote": pass_twice,
            "board resolve": other("vote BOARD --verdict APPROVE"),
            "board ask-all": write_member,
            "board verify": keep,
        },
    )
    said = {body["command"]: json.dumps(body) for body in answers}
    assert "APPROVED" in said["resolve"]
    assert "APPROVED" in said["ask-all"]


@pytest.mark.parametrize("role", ROLES)
def test_a_text_is_short_enough_to_paste(role: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Under 60 lines, all of them plain; for programs the same text and its commands."""
    assert main(["skill", role]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) < 60
    assert text.isascii()
    assert text.startswith(f"---\nname: jobwire-{role}\ndescription: ")
    assert main(["skill", role, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["ok"], said["role"], said["text"], said["commands"]) == (True, role, text, commands_in(text))
    assert all(" --json" in line for line in said["commands"])
