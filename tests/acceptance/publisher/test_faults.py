"""`publish_event` under races, kills and refusing disks: nothing lost, nothing twice, in order."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jobwire.jobs.record import JobRecord
from jobwire.registry.layout import SERVE_FILE
from jobwire.registry.store import RecordStore
from jobwire.testing import BrokerProcess, EmbeddedServer, wait_for

MakeCommand = Callable[[Path], Any]
Read = Callable[..., Any]


def test_sixteen_processes_race_for_seq(broker: BrokerProcess, make_command: MakeCommand, read: Read) -> None:
    """Each of 48 events from 16 racing processes gets its own number, and all arrive in their order."""
    command = make_command(broker.home)
    reader = read(broker, command)
    assert command.say("started").code == 0
    script = 'for i in 1 2 3; do "$@" || exit $?; done'
    words = ["--home", str(command.home), "--job", command.job_id, "--event", "progress"]
    program = command.start_bare("--help")
    command.end(program)
    racers = [
        subprocess.Popen(
            ["/bin/sh", "-c", script, "sh", program.args[0], *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(16)
    ]
    answers = [command.end(racer) for racer in racers]
    assert [answer.code for answer in answers] == [0] * 16, [answer.stderr for answer in answers]
    lines = [line for answer in answers for line in answer.lines]
    assert sorted(line["seq"] for line in lines) == list(range(2, 50))
    assert all(line["delivered"] for line in lines)
    assert reader.wait_for_seq(49) == list(range(1, 50))
    assert reader.rejected == []
    assert command.history() == list(range(1, 50))
    assert command.waiting() == []


def test_racers_without_a_broker_keep_everything(make_command: MakeCommand, read: Read) -> None:
    """With no broker nobody waits for sixteen others' tries; one flush later all is there, in order."""
    with EmbeddedServer() as server:
        command = make_command(server.home)
        command.say("started")
        server.stop()
        start = time.monotonic()
        racers = [command.start("--event", "progress") for _ in range(8)]
        answers = [command.end(racer) for racer in racers]
        assert [answer.code for answer in answers] == [60] * 8
        assert time.monotonic() - start < 15
        server.start()
        reader = read(server, command, late=True)
        assert command.run("--flush").line["sent"] == 8
        assert reader.wait_for_seq(9) == list(range(2, 10))


def test_a_broker_killed_in_the_middle(
    fresh_broker: BrokerProcess, make_command: MakeCommand, read: Read
) -> None:
    """Whatever a killed broker forgot although it had acknowledged it, the outbox still has: all arrive."""
    command = make_command(fresh_broker.home)
    # A registry process looks after this home (and has confirmed nothing yet): PUBACK alone trims nothing.
    (fresh_broker.home / SERVE_FILE).write_text("{}")
    codes = [command.say("started").code]
    for number in range(1, 13):
        process = command.start("--event", "progress", "--data", f"number={number}", "--attempts", "1")
        if number % 4 == 0:
            fresh_broker.kill()
            codes.append(command.end(process).code)
            fresh_broker.start()
        else:
            codes.append(command.end(process).code)
    assert set(codes) <= {0, 60}
    assert command.waiting() == list(range(1, 14))
    reader = read(fresh_broker, command)
    assert command.run("--flush").line["sent"] == 13
    assert reader.wait_for_seq(13) == list(range(1, 14))
    assert [item.event.data.get("number") for item in reader.accepted][1:] == list(range(1, 13))


def test_a_frozen_broker_is_unreachable_not_forever(
    fresh_embedded_broker: BrokerProcess, make_command: MakeCommand
) -> None:
    """A broker that holds the connection and never answers costs one deadline, and then exit 60."""
    command = make_command(fresh_embedded_broker.home)
    command.say("started")
    fresh_embedded_broker.suspend()
    start = time.monotonic()
    answer = command.say("progress", "--attempts", "1")
    fresh_embedded_broker.resume()
    assert answer.code == 60
    assert answer.line["delivered"] is False
    assert time.monotonic() - start < 16


def test_killed_at_any_moment_the_job_goes_on(
    broker: BrokerProcess, make_command: MakeCommand, read: Read
) -> None:
    """SIGKILL at moments spread over publish_event: the next one goes on; each number arrives, in order."""
    command = make_command(broker.home)
    reader = read(broker, command)
    start = time.monotonic()
    command.say("started")
    usual = time.monotonic() - start
    promised = {1}
    for step in range(25):
        process = command.start("--event", "progress")
        moment = time.monotonic() + (0.2 + step * 0.036) * usual
        wait_for(partial(_due, moment, process), what="the moment to kill")
        process.kill()
        stdout, _ = process.communicate()
        if stdout:
            answer = command.end_with(process.returncode, stdout)
            promised.add(answer.line["seq"])
    assert command.run("--flush").code == 0
    last = command.say("completed").line["seq"]
    assert reader.wait_for_seq(last) == list(range(1, last + 1))
    assert {item.reason.value for item in reader.rejected} <= {"duplicate"}
    assert promised <= set(range(1, last + 1))
    assert command.history() == list(range(1, last + 1))
    assert command.record().last_seq == last
    assert command.waiting() == []


def _due(moment: float, process: "subprocess.Popen[str]") -> bool:
    return time.monotonic() >= moment or process.poll() is not None


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Give a file system of its own with 256 KiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs", str(folder)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"mounting is not possible here: {made.stderr}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def _settled(command: Any) -> JobRecord:
    """Return the record after checking that no place knows more or less than another."""
    record: JobRecord = command.record()
    assert command.waiting() in ([], [record.last_seq])
    home = Path(command.home)
    assert [path for path in home.rglob("*.tmp*") if path.is_file()] == []
    return record


@pytest.mark.root
def test_a_full_disk_says_so_and_leaves_nothing_half(
    mosquitto: BrokerProcess, make_command: MakeCommand, small_disk: Path
) -> None:
    """On a full disk: exit 50 with the remedy, the job as before; with room again it goes on."""
    home = small_disk / "home"
    command = make_command(home)
    shutil.copy(mosquitto.home / "jobwire.toml", home)
    for folder in ("certs", "passwords"):
        shutil.copytree(mosquitto.home / folder, home / folder, ignore=shutil.ignore_patterns("clients"))
    assert command.say("started").code == 0
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
    bulk = small_disk.parent / "bulk.json"
    bulk.write_text('{"bulk": "' + "x" * 30_000 + '"}')
    answer = command.say("progress", "--data-json", str(bulk))
    assert answer.code == 50, answer.stderr
    assert answer.stdout == ""
    assert "free disk space" in answer.stderr
    assert _settled(command).last_seq == 1
    filler.unlink()
    assert command.say("progress", "--data-json", str(bulk)).line["seq"] == 2
    assert command.say("completed").code == 0
    assert _settled(command).status == "completed"


@pytest.mark.root
def test_a_read_only_home_says_so(
    mosquitto: BrokerProcess, make_command: MakeCommand, small_disk: Path
) -> None:
    """On a read-only home: exit 50 with the remedy, nothing published, the job as before."""
    command = make_command(small_disk / "home")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    answer = command.say("started", "--broker", "127.0.0.1", "--port", str(mosquitto.port))
    assert answer.code == 50, answer.stderr
    assert answer.stdout == ""
    assert "writable" in answer.stderr
    assert RecordStore(command.home).get(command.job_id).last_seq == 0
