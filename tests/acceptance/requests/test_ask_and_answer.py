"""A worker asks, a person answers: real processes, through the disk alone."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO, TextIOWrapper
from pathlib import Path
from statistics import median

import pytest

from jobwire import Home
from jobwire.cli.main import main
from jobwire.core.errors import InvalidInputError
from jobwire.jobs.record import JobRecord
from jobwire.jobs.requests import Answer, Request, RequestState, find, open_requests
from jobwire.publisher import Publisher
from jobwire.publisher.asking import NoAnswerError
from jobwire.registry.requests import give_answer, open_in
from jobwire.testing.homes import new_home
from jobwire.testing.run_command import run_words
from jobwire.testing.waiting import wait_for
from jobwire.testing.watching import JobHouse, bare_environment

SECONDS = 60.0


class Asking:
    """A home with one job whose worker has begun, and the commands of both sides."""

    def __init__(self, home: Path) -> None:
        self.house = JobHouse(home)
        self.job_id = self.house.register(title="release")
        self.house.claim(self.job_id)
        with Publisher(self.job_id, home=home, environ=bare_environment()) as worker:
            worker.keep("started")

    def command(self, *words: str, text: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        """Run `jobwire` to its end."""
        return subprocess.run(
            self._line(*words),
            capture_output=True,
            text=True,
            input=text,
            env=bare_environment(**environ),
            timeout=SECONDS,
            check=False,
        )

    def begin(self, *words: str) -> "subprocess.Popen[str]":
        """Start `jobwire ask` and return when the request is open."""
        process = subprocess.Popen(
            self._line("ask", "--job", self.job_id, *words),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=bare_environment(),
        )
        wait_for(lambda: self.open() or process.poll() is not None, deadline_seconds=SECONDS)
        return process

    def record(self) -> JobRecord:
        """Return the job's record."""
        return self.house.record(self.job_id)

    def open(self) -> list[Request]:
        """Return what is open."""
        return open_requests(self.record().requests)

    def answers(self) -> list[str]:
        """Return the answers that stand in the history."""
        lines = self.house.store.audit(self.job_id).lines()
        return [line["answer"] for line in lines if line.get("after") == "answered"]

    def _line(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "jobwire.cli.main", "--home", str(self.house.home), *words]


@pytest.fixture
def asking(tmp_path: Path) -> Asking:
    """Give a job that may ask."""
    return Asking(new_home(tmp_path / "home"))


def end_of(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """Return exit code, stdout and stderr."""
    out, err = process.communicate(timeout=SECONDS)
    return process.returncode, out, err


def test_a_person_sees_the_question_and_the_worker_gets_the_answer(asking: Asking) -> None:
    """The feed shows what is asked and the command that answers; run, it lets `ask` print the answer."""
    process = asking.begin("Push? password=hunter22", "--choice", "yes", "--choice", "no")
    shown = asking.command("feed")
    assert "hunter22" not in shown.stdout
    assert "yes · no" in shown.stdout
    (line,) = [line.strip() for line in shown.stdout.splitlines() if "jobwire answer" in line]
    told = json.loads(asking.command("feed", "--json").stdout)
    assert [one["command"] for one in told["requests"]] == [line]
    answered = asking.command(*line.split()[1:], JOBWIRE_AGENT="ann")
    assert (answered.returncode, answered.stderr) == (0, "")
    assert end_of(process) == (0, "yes\n", "")
    (request,) = asking.record().requests
    assert (request.state, request.answered_by) == (RequestState.APPLIED, "ann")
    assert asking.command("feed").stdout == "nothing waits for you\n"
    late = asking.command("answer", request.id, "no", "--json")
    said = json.loads(late.stdout)
    assert (late.returncode, said["error"]["code"], said["error"]["answered_by"]) == (
        20,
        "not_expected",
        "ann",
    )


def test_one_of_two_answers_at_the_same_moment_is_carried_out(asking: Asking) -> None:
    """The other gets 20; record, history and worker know one answer."""
    process = asking.begin("Which?", "--request", "which")
    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(lambda word: asking.command("answer", "which", word), ["a", "b", "c", "d"]))
    assert sorted(end.returncode for end in ends) == [0, 20, 20, 20]
    winner = "abcd"[[end.returncode for end in ends].index(0)]
    assert end_of(process)[:2] == (0, f"{winner}\n")
    assert asking.answers() == [winner]


def test_a_worker_that_was_killed_gets_its_answer_by_asking_again(asking: Asking) -> None:
    """After a kill -9 of `ask`, before the answer and after: the same --request waits on, and asks once."""
    words = ("Which?", "--request", "which")
    process = asking.begin(*words)
    process.kill()
    end_of(process)
    process = asking.begin(*words)
    assert [one.id for one in asking.open()] == ["which"]
    process.kill()
    end_of(process)
    assert asking.command("answer", asking.job_id, "the red one").returncode == 0
    for _ in range(2):
        assert end_of(asking.begin(*words))[:2] == (0, "the red one\n")
    assert asking.answers() == ["the red one"]
    assert asking.record().last_seq == 3 + 1, "asked once, taken twice"


@pytest.mark.parametrize("ending", ["timeout", "default", "cancelled"])
def test_ask_ends_without_an_answer(asking: Asking, ending: str) -> None:
    """10 where nobody answers in time, the default where there is one, 3 where the job is stopped."""
    words = {"timeout": ["--timeout", "1"], "default": ["--timeout", "1", "--default", "no"]}.get(ending, [])
    process = asking.begin("Go on?", "--request", "on", *words)
    if ending == "cancelled":
        asking.house.queue.cancel(asking.job_id)
    code, out, err = end_of(process)
    assert (code, out) == {"timeout": (10, ""), "default": (0, "no\n"), "cancelled": (3, "")}[ending], err
    late = asking.command("answer", "on", "yes")
    assert late.returncode == (20 if ending != "cancelled" else 40)
    assert asking.command("answer", asking.job_id, "yes").returncode == 20
    assert not asking.record().attention


def test_no_job_gives_itself_a_permission(asking: Asking) -> None:
    """By its environment or by that of a process above it: 30 `forbidden`; a question it may answer."""
    process = asking.begin("Delete it?", "--kind", "permission", "--choice", "yes", "--request", "p")
    inside = asking.command("answer", "p", "yes", "--json", JOBWIRE_JOB=asking.job_id)
    assert (inside.returncode, json.loads(inside.stdout)["error"]["code"]) == (30, "forbidden")
    line = " ".join(asking._line("answer", "p", "yes"))
    hidden = subprocess.run(
        ["sh", "-c", f"env -u JOBWIRE_JOB {line}; exit $?"],
        env=bare_environment(JOBWIRE_JOB=asking.job_id),
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert hidden.returncode == 30
    assert asking.command("answer", "p", "yes").returncode == 0
    assert end_of(process)[0] == 0


def test_a_default_that_is_no_choice_is_refused(asking: Asking) -> None:
    """By the command and from Python: 30 with a hint, and nothing is asked."""
    how = ("--choice", "yes", "--choice", "no", "--timeout", "5", "--default", "later")
    refused = asking.command("ask", "--job", asking.job_id, "Push?", *how, "--json")
    error = json.loads(refused.stdout)["error"]
    assert (refused.returncode, error["exit_code"], error["code"]) == (30, 30, "invalid_input")
    assert "yes, no" in error["hint"]
    with (
        Publisher(asking.job_id, home=asking.house.home, environ=bare_environment()) as worker,
        pytest.raises(InvalidInputError),
    ):
        worker.ask("Push?", choices=["yes", "no"], default="later", timeout_seconds=5)
    assert asking.open() == []


BAD_ANSWERS = [
    (["which", "-"], 30),
    (["which"], 30),
    (["which", "yes", "--choice", "no"], 30),
    (["which", "--choice", "maybe"], 30),
    (["which", "yes", "--always"], 30),
    (["../../etc/passwd", "yes"], 40),
    (["00000000", "yes"], 40),
    (["which\x1b[2J", "yes"], 40),
]


def test_bad_answers_are_refused_and_change_nothing(
    asking: Asking, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte, nothing, two answers, another's form: a clear message, and the request stays open."""
    with Publisher(asking.job_id, home=asking.house.home, environ=bare_environment()) as worker:
        body = {"id": "which", "kind": "question", "text": "?", "choices": ["yes", "no"]}
        worker.keep("permission_required", "?", {"request": body})
        for words, code in BAD_ANSWERS:
            monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"x" * 2**20)))
            assert main(["--home", str(asking.house.home), "answer", *words]) == code, words
            said = capsys.readouterr().err
            assert "hint" in said
            assert "\x1b" not in said
            assert asking.open()
        worker.keep("completed")


def test_an_answer_is_heard_at_once(asking: Asking) -> None:
    """From the answer on the disk to the waiting worker: fast enough to go on talking."""
    home = Home(asking.house.home, environ=bare_environment())
    waits: list[float] = []
    with home.publisher(asking.job_id) as worker, ThreadPoolExecutor(1) as pool:
        for number in range(20):
            future = pool.submit(worker.ask, "?", request=f"r{number}")
            wait_for(asking.open, deadline_seconds=SECONDS)
            begun = time.monotonic()
            give_answer(asking.house.queue, f"r{number}", Answer("yes", "ann", "command"))
            assert future.result(SECONDS).text == "yes"
            waits.append(time.monotonic() - begun)
        with pytest.raises(NoAnswerError):
            worker.ask("?", timeout_seconds=0.05)
        worker.keep("completed")
    # On a machine that does nothing else some 20 ms: a busy one is not to fail it.
    assert median(waits) < 2.0, waits
    request = find(asking.record().requests, "r19")
    assert request is not None
    assert request.state is RequestState.APPLIED


def test_a_command_reads_the_answers_to_what_it_printed(asking: Asking) -> None:
    """`jobwire run --answer-stdin`: its lines ask at once, its input has the answers in their order."""
    script = 'echo "::question Which?"; echo "::permission Push?"; read a; read b; echo "$a and $b"'
    words = run_words(asking.house.home, "--quiet", "--answer-stdin", "--", "sh", "-c", script)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=bare_environment())
    queue = asking.house.queue
    asked = wait_for(lambda: (found := open_in(queue))[1:] and found, deadline_seconds=SECONDS)
    by_text = {one.request.text: one.request for one in asked}
    assert by_text["Push?"].choices == ("yes", "no")
    give_answer(queue, by_text["Push?"].id, Answer("no", "ann", "page"))
    give_answer(queue, by_text["Which?"].id, Answer("the red one", "ann", "page"))
    out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    assert "the red one and no" in out
    record = asking.house.record(asked[0].record.job_id)
    assert record.status == "completed"
    assert {one.state for one in record.requests} == {RequestState.APPLIED}
