"""Hooks whose work the registry process does: each call once, and nobody's costs the others anything."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jobwire.delivery.call import SOCKET_FILE, TAKEN, call
from jobwire.hooks.injection import hook_words
from jobwire.hooks.main import ANSWER, ERROR
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.testing.calls import serving_hooks
from jobwire.testing.homes import new_home
from jobwire.testing.requirements import skip_here
from jobwire.testing.waiting import wait_for

TOOL = {"session_id": "c-1", "cwd": "/", "tool_name": "Bash"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home."""
    return new_home(tmp_path / ".hermes")


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    """Return the variables of an agent in a job that has begun."""
    job_id = JobQueue(RecordStore(home), warn=print).register(JobSpec(title="try")).record.job_id
    variables = {
        "HOME": str(home.parent),
        "JOBWIRE_HOME": str(home),
        "JOBWIRE_JOB": job_id,
        "PATH": os.environ["PATH"],
    }
    begun = body("SessionStart", source="startup")
    assert (
        subprocess.run(
            hook_words("claude"), input=begun, env=variables, check=True, capture_output=True
        ).stderr
        == b""
    )
    return variables


def body(event: str, **fields: Any) -> bytes:
    """Return a hook's input."""
    return json.dumps({"hook_event_name": event, **TOOL, **fields}).encode()


def denied(number: int) -> bytes:
    """Return the input of a hook whose work is one event of its own: a call that policy denies."""
    return body("PreToolUse", tool_input={"command": f"git push {number}"})


def details(home: Path, environ: dict[str, str]) -> list[str]:
    """Return what was said so far."""
    log = Path(RecordStore(home).log_dir(environ["JOBWIRE_JOB"]), "events.ndjson")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line["event"]["detail"] for line in lines if line["kind"] == "event"]


@contextmanager
def speaking(home: Path) -> Iterator[socket.socket]:
    """Connect as a hook does."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(str(home / SOCKET_FILE))
        yield connection


def asked(given: bytes, environ: dict[str, str]) -> str | None:
    """Return what a hook of Claude Code is told to print; None where it has to do its work by itself."""
    answer = call(environ["JOBWIRE_HOME"], "claude", environ, given, answer_seconds=60)
    if answer is None:
        return None
    assert answer[:1] == ANSWER, answer
    return answer[1:].decode()


def deny_pushes(environ: dict[str, str]) -> None:
    """Write the user's policy."""
    path = Path(environ["HOME"], ".config", "jobwire", "jobwire.toml")
    path.parent.mkdir(parents=True)
    path.write_text('[agents.policy]\ndeny = ["Bash(git push*)"]\n')


def test_many_at_once_are_each_done_once(home: Path, environ: dict[str, str]) -> None:
    """A hundred hooks of one job at once, more than are served: each is kept once, whoever does its work."""
    deny_pushes(environ)
    with serving_hooks(home) as service, ThreadPoolExecutor(100) as hooks:

        def run(number: int) -> str | None:
            return asked(denied(number), environ)

        printed = list(hooks.map(run, range(100)))
    said = details(home, environ)
    for number, one in enumerate(printed):
        kept = [line for line in said if line.endswith(f"git push {number}")]
        assert len(kept) == (one is not None)
        assert one is None or json.loads(one)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert service.calls == sum(one is not None for one in printed) >= 1


def test_a_hook_as_a_program_has_its_work_done(home: Path, environ: dict[str, str]) -> None:
    """It loads neither typing nor json, and prints what it was told to."""
    deny_pushes(environ)
    script = (
        "import sys; from jobwire.hooks.main import main; code = main(['claude']);"
        " heavy = {'typing', 'json', 're', 'socket', 'jobwire.core.errors'};"
        " print(*sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    with serving_hooks(home) as service:
        command = [sys.executable, "-P", "-c", script]
        done = subprocess.run(command, input=denied(1), env=environ, check=True, capture_output=True)
        assert service.calls == 1
    assert b'"deny"' in done.stdout
    assert done.stderr == b"\n"


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"\n",
        b"claude 1\n",
        b"claude -1 2\n",
        b"claude 99999999999 1\n",
        b"claude 1 99999999999\n",
        b"nobody 0 2\n{}",
        b"claude 0 2\n{}",
        b"claude 0 3\n[]x",
        b"claude 0 100\n{",
        b"x" * 5000,
    ],
)
def test_what_is_no_call_is_disconnected(home: Path, environ: dict[str, str], given: bytes) -> None:
    """Nothing is done for it, and the next hook is served."""
    with serving_hooks(home) as service:
        with speaking(home) as connection:
            connection.sendall(given)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(10) == b""
        assert service.calls == 0
        assert asked(body("PostToolUse"), environ) == ""


def test_who_says_nothing_holds_up_nobody(home: Path, environ: dict[str, str]) -> None:
    """Twenty connections that send nothing: the next hook has its work done, by itself at the worst."""
    with serving_hooks(home), speaking(home) as first:
        silent = [socket.socket(socket.AF_UNIX) for _ in range(20)]
        for one in silent:
            one.connect(str(home / SOCKET_FILE))
        begun = time.monotonic()
        assert asked(body("PostToolUse"), environ) in {"", None}
        assert time.monotonic() - begun < 30
        assert first.recv(1) == b""
        for one in silent:
            one.close()


def test_a_call_whose_hook_went_on_is_not_done(home: Path, environ: dict[str, str]) -> None:
    """It was taken, and the hook did not wait for that: it has done the work by itself."""
    deny_pushes(environ)
    own = b"\0".join(f"{name}={value}".encode() for name, value in environ.items())
    with serving_hooks(home) as service:
        with speaking(home) as connection:
            connection.sendall(b"claude %d %d\n" % (len(own), len(denied(7))) + own + denied(7))
            assert connection.recv(1) == TAKEN
        assert asked(denied(8), environ) is not None
        wait_for(lambda: service.calls, what="the second call", deadline_seconds=60)
    said = details(home, environ)
    assert [line for line in said if "git push 7" in line] == []
    assert len([line for line in said if "git push 8" in line]) == 1


def test_a_person_is_waited_for_by_the_hook_itself(home: Path, environ: dict[str, str]) -> None:
    """What may take a day occupies nobody in the registry process."""
    with serving_hooks(home) as service:
        assert asked(body("PermissionRequest", tool_input={"command": "make"}), environ) is None
        assert service.calls == 0


@contextmanager
def standing_still(home: Path, answer: bytes | None) -> Iterator[None]:
    """Listen where the process would; take a call and then say `answer`, or take none."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home / SOCKET_FILE))
        listener.listen()

        def take() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100_000)
                connection.sendall(TAKEN)
                connection.recv(1)
                connection.sendall(answer or b"")

        thread = threading.Thread(target=take, daemon=True)
        if answer is not None:
            thread.start()
        yield
        if answer is not None:
            thread.join()


def test_a_process_that_stands_still_costs_a_moment(home: Path, environ: dict[str, str]) -> None:
    """It takes nothing: the hook does its work by itself, and the event is kept."""
    deny_pushes(environ)
    with standing_still(home, None):
        done = subprocess.run(
            hook_words("claude"), input=denied(1), env=environ, check=True, capture_output=True
        )
    assert b'"deny"' in done.stdout
    assert len([line for line in details(home, environ) if "git push 1" in line]) == 1


@pytest.mark.parametrize(
    ("answer", "words"), [(b"", b"ended meanwhile"), (ERROR + b"disk full; wait", b"disk full")]
)
def test_a_call_that_was_taken_is_not_done_again(
    home: Path, environ: dict[str, str], answer: bytes, words: bytes
) -> None:
    """It may have been done: the agent goes its own way, with one line that says why."""
    deny_pushes(environ)
    with standing_still(home, answer):
        done = subprocess.run(
            hook_words("claude"), input=denied(1), env=environ, check=True, capture_output=True
        )
    assert words in done.stderr
    assert done.stdout == b""
    assert [line for line in details(home, environ) if "git push" in line] == []


def test_what_cannot_be_kept_is_said(home: Path, environ: dict[str, str]) -> None:
    """The job is not there: the hook tells its agent why, as one that does its work by itself."""
    with serving_hooks(home):
        answer = call(
            str(home),
            "claude",
            {**environ, "JOBWIRE_JOB": "0000abcd"},
            body("PostToolUse"),
            answer_seconds=60,
        )
    assert answer is not None
    assert answer.startswith(ERROR + b"no job")


def test_another_view_of_the_files_is_not_served(home: Path, environ: dict[str, str]) -> None:
    """In a container the paths and the user's policy are others: its hook looks for itself."""
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        skip_here("no mount namespace can be made here")
    deny_pushes(environ)
    with serving_hooks(home) as service:
        command = ["unshare", "--mount", *hook_words("claude")]
        done = subprocess.run(command, input=denied(1), env=environ, check=True, capture_output=True)
        assert b'"deny"' in done.stdout
        assert service.calls == 0


def test_the_socket_is_its_owners_and_goes_with_the_process(home: Path) -> None:
    """Nobody else may connect; what a killed process left is replaced."""
    path = home / SOCKET_FILE
    for _ in range(2):
        with serving_hooks(home):
            # Not what a killed one left, which is there before.
            wait_for(lambda: path.stat().st_mode & 0o777 == 0o600, what="the owner's", deadline_seconds=60)
        assert not path.exists()
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(path))
