"""`jobwire submit`: whole commands with an agent's stand-in in a real pane, from instructions to verdict."""

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from jobwire.coordination.sessions.inventory import Inventory
from jobwire.coordination.store import CoordinationStore
from jobwire.registry.store import RecordStore
from jobwire.testing import EmbeddedServer, new_home, wait_for
from jobwire.testing.session_house import SessionHouse
from jobwire.testing.watching import bare_environment

JOBWIRE = [sys.executable, "-m", "jobwire.cli.main"]


class Desk:
    """Somebody who submits."""

    def __init__(self, home: Path, server: str, folder: Path) -> None:
        self.house = SessionHouse(home, server, folder)
        self.home = home
        # The home is shared with other tests.
        self.session = f"s{uuid.uuid4().hex[:6]}"
        self.records = RecordStore(home)
        self.inventory = Inventory(CoordinationStore(str(home)))
        self.agent = (
            "--tmux-socket", server, "--agent-command", self.house.worker_line, "--deliver", "line",
            "--directory", str(folder),
        )  # fmt: skip

    def words(self, *more: str) -> list[str]:
        """Return the command line of `jobwire ...`."""
        return [*JOBWIRE, "--home", str(self.home), *more]

    def run(self, *more: str, given: str | None = None) -> "subprocess.CompletedProcess[str]":
        """Run `jobwire ...` to its end."""
        return subprocess.run(
            self.words(*more),
            capture_output=True, text=True, env=bare_environment(), timeout=120, check=False, input=given,
            cwd=self.house.folder,
        )  # fmt: skip

    def submit(self, *more: str, given: str | None = None) -> "subprocess.CompletedProcess[str]":
        """Submit to the session."""
        return self.run("submit", "--agent-session", self.session, *more, given=given)

    def given(self) -> list[str]:
        """Return the jobs whose instructions the stand-in got, each time."""
        path = self.house.folder / "given"
        return path.read_text().split() if path.exists() else []


@pytest.fixture
def desk(embedded_broker: EmbeddedServer, tmux_server: str, tmp_path: Path) -> Desk:
    """Give a home with a broker, and a tmux server that is not there yet."""
    return Desk(embedded_broker.home, tmux_server, tmp_path)


def test_instructions_to_verdict_twice_in_one_pane(desk: Desk) -> None:
    """The pane is opened, the job done and seen here; the next one goes to the same agent."""
    first = desk.submit(*desk.agent, "count the files $(touch pwned)")
    assert first.returncode == 0, first.stderr
    assert "completed  did: count the files $(touch pwned)" in first.stderr
    assert "audit log in" in first.stderr
    row = desk.inventory.get(desk.session)
    assert (row.state, row.job_id, row.handing) == ("running", "", "")
    second = desk.submit("--title", "more", "--file", "-", given="list them\nall\n")
    assert second.returncode == 0, second.stderr
    assert desk.inventory.get(desk.session).pid == row.pid
    assert len(set(desk.given())) == len(desk.given()) == 2
    assert not (desk.house.folder / "pwned").exists()
    (job,) = [one for one in desk.given() if desk.records.get(one).title == "more"]
    assert desk.records.get(job).instructions == "list them\nall\n"
    text = Path(desk.records.log_dir(job), "instructions.md").read_text()
    assert f"You are {desk.session}" in text
    assert text.endswith("\n\nlist them\nall\n")
    log = Path(desk.records.log_dir(job), "output.log")
    wait_for(lambda: "works on list them" in log.read_text(), what="the pane's output", deadline_seconds=60)


def test_a_question_is_answered_from_elsewhere(desk: Desk) -> None:
    """The job waits for a person; nothing is pasted meanwhile; its answer comes to the agent."""
    asking = subprocess.Popen(
        desk.words("submit", "--agent-session", desk.session, *desk.agent, "ask me"),
        env=bare_environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(
        lambda: [r for r in map(desk.records.get, desk.given()) if r.attention],
        what="the question",
        deadline_seconds=60,
    )
    (job,) = desk.given()
    sent = desk.run("sessions", "send", desk.session, "yes", "--json")
    assert sent.returncode == 20
    assert json.loads(sent.stdout)["sent"] == "deferred"
    assert desk.run("answer", job, "go").returncode == 0
    _, errors = asking.communicate(timeout=60)
    assert asking.returncode == 0, errors
    assert "told: go" in errors


def test_a_busy_session_refuses_or_is_waited_for(desk: Desk) -> None:
    """A second job is refused with 20 and the first one's id; with --wait it follows."""
    begun = desk.submit(*desk.agent, "--detach", "hang on")
    assert begun.returncode == 0, begun.stderr
    job = begun.stdout.strip()
    wait_for(lambda: desk.records.get(job).last_seq > 1, what="the agent's word", deadline_seconds=60)
    refused = desk.submit("another")
    assert refused.returncode == 20
    assert job in refused.stderr
    waiting = subprocess.Popen(
        desk.words("submit", "--agent-session", desk.session, "--wait", "60", "another"),
        env=bare_environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert desk.run("publish", "--job", job, "--event", "completed").returncode == 0
    _, errors = waiting.communicate(timeout=90)
    assert waiting.returncode == 0, errors
    assert len(desk.given()) == 2


def test_a_pane_that_is_killed_ends_the_job_and_is_resumed(desk: Desk) -> None:
    """The agent dies under its job: exit code 1 with that reason; its session is brought back."""
    watching = subprocess.Popen(
        desk.words("submit", "--agent-session", desk.session, *desk.agent, "hang on"),
        env=bare_environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(desk.given, what="the instructions to arrive", deadline_seconds=60)
    os.kill(desk.inventory.get(desk.session).pid, signal.SIGKILL)
    _, errors = watching.communicate(timeout=60)
    assert watching.returncode == 1, errors
    assert f"session {desk.session}: its" in errors
    assert desk.inventory.get(desk.session).state == "terminated"
    back = desk.run("sessions", "resume", desk.session)
    assert back.returncode == 0, back.stderr
    assert desk.submit("once more").returncode == 0


def test_cancelled_while_it_is_watched(desk: Desk) -> None:
    """SIGINT cancels the job with 3; the agent stays in its pane."""
    watching = subprocess.Popen(
        desk.words("submit", "--agent-session", desk.session, *desk.agent, "hang on"),
        env=bare_environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(
        lambda: [r for r in map(desk.records.get, desk.given()) if r.last_seq > 1],
        what="its word",
        deadline_seconds=60,
    )
    watching.send_signal(signal.SIGINT)
    _, errors = watching.communicate(timeout=60)
    assert watching.returncode == 3, errors
    row = desk.inventory.get(desk.session)
    assert (row.state, row.job_id) == ("running", "")


@pytest.mark.parametrize(
    ("deliver", "script"),
    [
        ("stdin", "cat"),
        ("argument", "sh -c 'printf %s \"$1\"' sh"),
        ("file", "cat"),
        ("file", "sh -c 'cat {file}; exit 0'"),
    ],
)
def test_agents_that_are_started_once_a_job(desk: Desk, deliver: str, script: str) -> None:
    """On stdin, as an argument, as a file: the agent gets its text, and its end is the verdict."""
    text = 'do $(touch pwned) "this" \x1b[2J\nand that'
    answer = desk.submit(
        "--tmux-socket", desk.house.server, "--agent-command", script, "--deliver", deliver, text
    )
    assert answer.returncode == 0, answer.stderr
    every = [desk.records.get(path.stem) for path in Path(desk.home, "jobs").glob("*.json")]
    (record,) = [record for record in every if record.agent_session == desk.session]
    said = Path(desk.records.log_dir(record.job_id), "output.log").read_bytes().decode()
    assert f"You work on job {record.job_id}" in said
    assert said.replace("\r\n", "\n").endswith(text)
    assert desk.inventory.get(desk.session).state == "stopped"
    assert not (desk.house.folder / "pwned").exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--agent", "shell", "do it"), 30, "takes no instructions"),
        (("--agent", "nobody", "do it"), 30, "no agent"),
        (("--agent-command", "'x", "do it"), 30, "cannot be read"),
        (("--agent-command", "cat", " \n"), 30, "no instructions"),
        (("--agent-command", "cat"), 30, "which text"),
        (("--agent-command", "cat", "--directory", "/no/such", "do it"), 30, "no directory"),
        (("--agent-command", "cat", "--file", "huge"), 30, "text"),
    ],
)
def test_what_cannot_be_submitted(tmp_path: Path, words: tuple[str, ...], code: int, said: str) -> None:
    """Wrong agents, commands, texts and directories: refused before anything is written."""
    home = new_home(tmp_path / "home")
    (home / "jobwire.toml").write_text('[broker]\nbroker = "127.0.0.1"\nport = 1\ntls = "off"\n')
    (tmp_path / "huge").write_text("x" * (1 << 21))
    answer = subprocess.run(
        [*JOBWIRE, "--home", str(home), "submit", "--agent-session", "work", *words],
        capture_output=True, text=True, env=bare_environment(), timeout=60, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert (answer.returncode, said in answer.stderr) == (code, True), answer.stderr
    assert not list((home / "jobs").iterdir())


@pytest.mark.parametrize(
    "name", ["a:b", "a.b", "#(touch pwned)", "a#{pid}", "", "-x", "a\nb", 'x"; touch pwned; "']
)
def test_names_are_only_names(desk: Desk, name: str) -> None:
    """A session's name is refused, or is nothing but a name."""
    answer = desk.run("submit", f"--agent-session={name}", "--as", "builder", *desk.agent, "count")
    assert answer.returncode == (0 if '"' in name else 30), answer.stderr
    assert not (desk.house.folder / "pwned").exists()
    assert not list(desk.home.glob("**/pwned"))


def test_one_mebibyte_is_refused_and_a_quarter_goes_by_file(desk: Desk) -> None:
    """Beyond what a record holds: 30; below it the agent reads a file."""
    assert desk.submit(*desk.agent, "--file", "-", given="x" * (1 << 20)).returncode == 30
    answer = desk.submit(*desk.agent, "--file", "-", given="y" * 200_000)
    assert answer.returncode == 0, answer.stderr


def test_run_in_a_pane_is_a_session_too(desk: Desk) -> None:
    """`jobwire run --tmux` puts its session into the inventory, stopped when its command has ended."""
    answer = desk.run("run", "--tmux", desk.session, "--tmux-socket", desk.house.server, "--", "true")
    assert answer.returncode == 0, answer.stderr
    row = desk.inventory.get(desk.session)
    assert (row.agent, row.state, row.ended_by) == ("command", "stopped", "itself")


# Says something while it begins and takes keys only then, as programs with a prompt do.
_BEGINS = """\
import sys, time, tty
print("a newer version is there", flush=True)
time.sleep(2)
tty.setraw(0)
print("\\x1b[2J\\x1b[H> ", end="", flush=True)
text = ""
while key := sys.stdin.buffer.raw.read(1).decode():
    if key == "\\r":
        open("given", "w").write(text)
        text = ""
    text += key
    print(f"\\r> {text}", end="", flush=True)
"""


def test_an_agent_that_begins_is_given_its_work_at_its_prompt(desk: Desk) -> None:
    """What it says before is no prompt: a text that came then would stand there, its Enter another key."""
    program = desk.house.folder / "begins.py"
    program.write_text(_BEGINS)
    line = f"{sys.executable} {program}"
    agent = (
        *desk.agent[:2],
        "--agent-command",
        line,
        "--deliver",
        "paste",
        "--directory",
        str(desk.house.folder),
    )
    begun = desk.submit(*agent, "--detach", "do the first")
    assert begun.returncode == 0, begun.stderr
    given = desk.house.folder / "given"
    wait_for(
        lambda: given.exists() and "do the first" in given.read_text(), what="the work", deadline_seconds=60
    )
