"""`publish_event` whose work the registry process does: at a Python's price, and each event once."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobwire.core.override import override
from jobwire.delivery.call import SOCKET_FILE, LostCallError, call
from jobwire.publisher.cli import SERVED_NAME
from jobwire.publisher.served import ServedPublishes
from jobwire.registry.call_service import Work
from jobwire.testing import MosquittoServer, wait_for
from jobwire.testing.calls import serving_calls
from tests.acceptance.publisher.conftest import PROGRAM, Answer, Command, new_command
from tests.acceptance.publisher.test_beside_serve import serving

_PROGRAM = "from jobwire.publisher.cli import main; main()"
# Of the standard library, what costs a millisecond or more.
_HEAVY = {"typing", "json", "re", "enum", "socket", "functools", "contextlib", "collections"}
_OURS = ["jobwire.publisher.cli", "jobwire.delivery.call"]
CALL = "0123456789abcdef" * 2


@pytest.fixture
def command(fresh_mosquitto: MosquittoServer) -> Command:
    """Give the command of a job whose broker is this test's own."""
    return new_command(fresh_mosquitto.home)


@contextmanager
def waited_for(home: Path) -> Iterator[None]:
    """Run the registry process for the block, from where it takes calls."""
    with serving(home):
        wait_for((home / SOCKET_FILE).exists, what="who takes calls", deadline_seconds=60)
        yield


def test_almost_nothing_is_loaded(command: Command) -> None:
    """A worker's process loads no json, no typing and two modules of ours, and its event is confirmed."""
    where = ["--home", str(command.home), "--job", command.job_id]
    program = [sys.executable, "-P", "-X", "importtime", "-c", _PROGRAM, *where]

    def served() -> bool:
        """Tell whether the process took it: a machine that is busy may not do so in time."""
        done = subprocess.run([*program, "--event", "progress"], capture_output=True, text=True, check=True)
        loaded = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines()]
        # What Python itself loads at its start is not ours to save.
        ours = loaded[loaded.index("jobwire") :]
        line = Answer(0, done.stdout, "").line
        assert (line["delivered"], line["confirmed"]) == (True, True)
        return [name for name in ours if name.count(".") == 2] == _OURS and not _HEAVY & set(ours)

    with waited_for(command.home):
        command.say("started")
        wait_for(served, what="a call that is taken", deadline_seconds=60)


@pytest.mark.parametrize(
    "words",
    [
        ("--event", "progress", "--detail", "see /home/somebody/secret/file"),
        ("--event", "progress", "--detail", "see /home/somebody/secret/file", "--strict"),
        ("--event", "progress", "--data", "key=hunter2-hunter2"),
        ("--event", "progress", "--detail", "x" * 5000),
        ("--event", "completed", "--json"),
        ("--event", "progress", "--job", "ffffffff"),
        ("--event", "progress", "--job", "../../x", "--json"),
        ("--event", "progress", "--detail", "caf\udce9"),
    ],
)
def test_both_ways_say_the_same(command: Command, words: tuple[str, ...]) -> None:
    """Lines, warnings, errors and exit codes are the same, whoever did the work."""
    environ = {"A_TOKEN": "hunter2-hunter2"}
    with waited_for(command.home):
        if "completed" not in words:
            command.say("started")
        served = command.run(*words, **environ)
        own = command.end(command.start_bare(*_by_itself(command), *words, **environ))
    said = [answer.stdout.replace(f'"seq": {seq}', '"seq": N') for seq, answer in ((2, served), (3, own))]
    assert said[0] == said[1]
    assert (served.code, served.stderr) == (own.code, own.stderr)


def _by_itself(command: Command) -> tuple[str, ...]:
    """Return the words of a worker that does its work by itself: this form of --home it reads later."""
    return f"--home={command.home}", "--job", command.job_id


def test_both_ways_end_alike_where_nobody_hears(command: Command) -> None:
    """A full disk behind stdout is an error of storage, a reader that went away is none."""

    def ends(*where: str) -> list[tuple[int, bytes]]:
        read, write = os.pipe()
        os.close(read)
        with Path("/dev/full").open("wb") as full, os.fdopen(write, "wb") as pipe:
            words = [PROGRAM, *where, "--event", "progress"]
            done = [
                subprocess.run(words, stdout=out, stderr=subprocess.PIPE, check=False) for out in (full, pipe)
            ]
        return [(one.returncode, one.stderr) for one in done]

    with waited_for(command.home):
        command.say("started")
        served = ends("--home", str(command.home), "--job", command.job_id)
        assert served == ends(*_by_itself(command))
    assert b"No space left on device" in served[0][1]
    assert served[1] == (0, b"")


def test_many_at_once_are_each_kept_once(command: Command) -> None:
    """More than are served at once: each has a number of its own, and nothing is doubled."""
    with waited_for(command.home), ThreadPoolExecutor(20) as workers:
        command.say("started")
        answers = list(
            workers.map(lambda number: command.say("progress", "--detail", str(number)), range(20))
        )
    assert sorted(answer.line["seq"] for answer in answers) == list(range(2, 22))
    assert command.history() == list(range(1, 22))


def dying(home: Path, keep: Callable[[bytes, dict[str, str]], None]) -> threading.Thread:
    """Listen as the registry process does, take one call, and end without a word after `keep`."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(home / SOCKET_FILE))
    listener.listen()

    def take() -> None:
        connection, _ = listener.accept()
        with listener, connection, connection.makefile("rb") as source:
            own, given = (int(size) for size in source.readline().split()[1:])
            pairs = (os.fsdecode(one).partition("=") for one in source.read(own).split(b"\0"))
            environ = {name: value for name, _, value in pairs}
            raw = source.read(given)
            connection.sendall(b"t")
            assert connection.recv(1) == b"g"
            keep(raw, environ)

    thread = threading.Thread(target=take, name="dying")
    thread.start()
    return thread


@pytest.mark.parametrize("kept", [True, False])
def test_a_process_that_dies_in_a_call_leaves_one_event(command: Command, *, kept: bool) -> None:
    """Killed behind the event or before it, without an answer: the worker finds it kept, or keeps it."""

    def keep(given: bytes, environ: dict[str, str]) -> None:
        work = ServedPublishes(command.home).take(SERVED_NAME, environ, given)
        assert work is not None
        if kept:
            work(lambda: True)

    process = dying(command.home, keep)
    answer = command.say("started", "--detail", "once")
    process.join()
    assert (answer.code, answer.line["seq"], answer.line["delivered"]) == (0, 1, True)
    assert command.history() == [1]
    (command.home / SOCKET_FILE).unlink()
    assert command.say("completed").line["seq"] == 2


def test_a_terminal_event_that_was_kept_is_no_conflict(command: Command) -> None:
    """The process died behind the job's last event: the worker learns that it is kept."""
    command.say("started")

    def keep(given: bytes, environ: dict[str, str]) -> None:
        work = ServedPublishes(command.home).take(SERVED_NAME, environ, given)
        assert work is not None
        work(lambda: True)

    process = dying(command.home, keep)
    answer = command.say("completed")
    process.join()
    assert (answer.code, answer.line["seq"], answer.line["delivered"]) == (0, 2, True)
    assert command.history() == [1, 2]


def test_what_nobody_waits_for_any_more_is_not_kept(command: Command) -> None:
    """A process that stood still begins when the worker has gone on by itself: nothing is doubled."""
    went_on = threading.Event()

    class Late(ServedPublishes):
        @override
        def take(self, name: str, environ: dict[str, str], given: bytes) -> Work | None:
            work = super().take(name, environ, given)
            assert work is not None
            return lambda waits: work(waits) if went_on.wait(60) else b""

    words = f"{CALL}\0--job\0{command.job_id}\0--event\0started".encode()
    with serving_calls(command.home, {SERVED_NAME: Late(command.home)}):
        with pytest.raises(LostCallError):
            call(str(command.home), SERVED_NAME, {}, words, answer_seconds=0.2)
        went_on.set()
    assert command.history() == []


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"short\0--event\0started",
        CALL.upper().encode() + b"\0--event\0started",
        CALL.encode(),
        CALL.encode() + b"\0--event\0nothing",
        CALL.encode() + b"\0--event\0started\0--direct",
        CALL.encode() + b"\0--event\0started\0--data-json\0/etc/passwd",
        CALL.encode() + b"\0--event\0started\0--detail\0-",
        CALL.encode() + b"\0--event\0started\0--ticket\0x",
        CALL.encode() + b"\0--flush",
    ],
)
def test_what_is_the_workers_own_is_not_taken(command: Command, given: bytes) -> None:
    """Its files, stdin, ticket and connection are its own; what is no call is nobody's."""
    assert ServedPublishes(command.home).take(SERVED_NAME, {}, given) is None
