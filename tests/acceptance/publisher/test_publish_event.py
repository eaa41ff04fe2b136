"""`publish_event` against real brokers: what it prints, its exit codes, and what it never says."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobwire.certs.authority import CertificateAuthority
from jobwire.jobs import fold
from jobwire.jobs.ticket import encode_ticket, ticket_for
from jobwire.testing import BrokerProcess, MosquittoServer, free_port

MakeCommand = Callable[[Path], Any]
Read = Callable[..., Any]


def test_a_job_from_start_to_end(broker: BrokerProcess, make_command: MakeCommand, read: Read) -> None:
    """Each call prints one JSON line and exits 0; every event is admitted; a second end is a conflict."""
    command = make_command(broker.home)
    reader = read(broker, command)
    for seq, (event, *words) in enumerate(
        (
            ["started"],
            ["progress", "--detail", "12 of 30 files", "--data", "percent=40", "--data", "phase=hash"],
            ["permission_required", "--detail=-5 degrees: go on?"],
            ["completed", "--detail", "-"],
        ),
        1,
    ):
        answer = command.say(event, *words, text="done\n")
        assert answer.code == 0, answer.stderr
        assert answer.line == {"job_id": command.job_id, "seq": seq, "event": event, "delivered": True}
        assert answer.stderr == ""
    assert reader.wait_for_seq(4) == [1, 2, 3, 4]
    assert reader.accepted[1].event.data == {"percent": 40, "phase": "hash"}
    assert reader.accepted[3].event.detail == "done"
    assert command.waiting() == []
    second = command.say("completed")
    assert (second.code, second.stdout) == (20, "")
    assert "already completed" in second.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], 30),
        (["--event", "shouted"], 30),
        (["--event", "progress"], 30),
        (["--event", "started", "--data", "x"], 30),
        (["--event", "started", "--detail", "x" * 1025], 30),
        (["--event", "started", "--attempts", "0"], 30),
        (["--event", "started", "--confirm", "-1"], 30),
        (["--event", "started", "--confirm", "nan"], 30),
        (["--event", "started", "--port", "0"], 30),
        (["--event", "started", "--data", "hmac_sig=0"], 30),
        (["--event", "started", "--strict", "--detail", "\udcff"], 30),
        (["--event", "started", "--data", "a=\udcff"], 30),
        (["--event", "started", "--data-json", "/dev/null"], 30),
        (["--event", "started", "--data-json", "missing.json"], 40),
        (["--event", "started", "--ticket", "missing.ticket"], 40),
        (["--event", "started", "--ca-certs", "missing.pem"], 30),
        (["--event", "started", "--password-file", "missing"], 30),
        (["--event", "started", "--for-attempt", "2"], 3),
        (["--job", "ffffffff", "--event", "started"], 40),
        (["--job", "../../etc", "--event", "started"], 30),
        (["--ev", "started"], 30),
        (["--password", "secret", "--event", "started"], 30),
    ],
)
def test_exit_codes_of_bad_input(
    mosquitto: MosquittoServer, make_command: MakeCommand, words: list[str], code: int
) -> None:
    """What is wrong is told by exit code and a clear word, without a traceback, before anything is sent."""
    command = make_command(mosquitto.home)
    answer = command.run(*words)
    assert answer.code == code, answer.stderr
    assert "publish_event: error:" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert all(not line["delivered"] for line in answer.lines)


def test_errors_as_json(mosquitto: MosquittoServer, make_command: MakeCommand) -> None:
    """With --json a program reads the error from stderr."""
    answer = make_command(mosquitto.home).say("progress", "--json")
    assert json.loads(answer.stderr)["exit_code"] == answer.code == 30


def test_help_tells_exit_codes_and_examples(make_command: MakeCommand, tmp_path: Path) -> None:
    """The help holds the exit codes, an example and every broker option."""
    command = make_command(tmp_path)
    answer = command.end(command.start_bare("--help"))
    assert answer.code == 0
    for word in (
        "exit codes:",
        "60",
        "publish_event --job 0a1b2c3d --event started",
        "--ca-certs",
        "--flush",
    ):
        assert word in answer.stdout


def test_endless_input_is_refused(mosquitto: MosquittoServer, make_command: MakeCommand) -> None:
    """A detail or data without end is refused after its limit."""
    command = make_command(mosquitto.home)
    for option in (["--detail", "-"], ["--data-json", "-"]):
        with subprocess.Popen(["yes", "x"], stdout=subprocess.PIPE) as endless:
            process = command.read_from(endless.stdout, "--event", "started", *option)
            answer = command.end(process)
            endless.kill()
        assert answer.code == 30
        assert "more than" in answer.stderr


def test_an_absent_broker_keeps_the_events_for_a_flush(
    fresh_broker: BrokerProcess, make_command: MakeCommand, read: Read
) -> None:
    """Broker down: exit 60, the events wait; a flush delivers them in order, the next has nothing to do."""
    command = make_command(fresh_broker.home)
    fresh_broker.stop()
    for seq, event in enumerate(("started", "progress", "completed"), 1):
        answer = command.say(event, "--attempts", "1")
        assert answer.code == 60
        assert answer.line == {"job_id": command.job_id, "seq": seq, "event": event, "delivered": False}
        assert "kept in" in answer.stderr
        assert "--flush" in answer.stderr
    assert command.waiting() == [1, 2, 3]
    assert command.run("--flush", "--attempts", "1").code == 60
    fresh_broker.start()
    reader = read(fresh_broker, command)
    answer = command.run("--flush")
    assert answer.code == 0
    assert answer.line["delivered"]
    assert answer.line["sent"] == 3
    assert reader.wait_for_seq(3) == [1, 2, 3]
    assert command.run("--flush").line["sent"] == 0
    assert command.waiting() == []


def test_a_flush_without_a_job_is_for_all(
    fresh_embedded_broker: BrokerProcess, make_command: MakeCommand
) -> None:
    """Without --job every outbox of the home is sent, one line each; one that fails holds up no other.

    A job that has nothing to send is not named; where none has, that is said.
    """
    commands = sorted((make_command(fresh_embedded_broker.home) for _ in range(3)), key=lambda c: c.job_id)
    fresh_embedded_broker.stop()
    for command in commands:
        command.say("started", "--attempts", "1")
    fresh_embedded_broker.start()
    Path(commands[0].store.record_path(commands[0].job_id)).unlink()
    flush = ("--home", str(fresh_embedded_broker.home), "--flush")
    answer = commands[0].end(commands[0].start_bare(*flush))
    assert answer.code == 40
    assert [line["job_id"] for line in answer.lines] == [command.job_id for command in commands[1:]]
    assert all(line["delivered"] for line in answer.lines)
    Path(commands[0].store.sent_path(commands[0].job_id)).unlink()
    answer = commands[0].end(commands[0].start_bare(*flush))
    assert (answer.code, answer.stdout, answer.stderr) == (0, "", "publish_event: nothing was waiting\n")


def test_refused_by_password_and_by_authority(
    broker: BrokerProcess, make_command: MakeCommand, tmp_path: Path
) -> None:
    """A wrong password and a wrong CA are refusals: exit 70, named, the event kept, no second try."""
    command = make_command(broker.home)
    wrong = tmp_path / "password"
    wrong.touch(0o600)
    wrong.write_text("wrong\n")
    CertificateAuthority(tmp_path / "certs").init()
    start = time.monotonic()
    answer = command.say("started", "--username", "claude-worker", "--password-file", str(wrong))
    assert answer.code == 70, answer.stderr
    assert answer.line["delivered"] is False
    answer = command.say("progress", "--ca-certs", str(tmp_path / "certs" / "ca.pem"))
    assert answer.code == 70, answer.stderr
    assert "certificate" in answer.stderr
    assert "kept in" in answer.stderr
    assert time.monotonic() - start < 10
    assert command.waiting() == [1, 2]
    assert command.say("progress").line == {
        "job_id": command.job_id,
        "seq": 3,
        "event": "progress",
        "delivered": True,
    }


def test_a_silent_broker_is_given_up(make_command: MakeCommand, tmp_path: Path) -> None:
    """Where nobody listens the answer comes after the tries, as unreachable."""
    command = make_command(tmp_path / "home")
    answer = command.say("started", "--broker", "127.0.0.1", "--port", str(free_port()), "--no-tls")
    assert answer.code == 60
    assert command.waiting() == [1]


def test_cancelled_and_claimed_again_stop_the_worker(
    mosquitto: MosquittoServer, make_command: MakeCommand
) -> None:
    """Exit 3 tells an agent to stop: the job is cancelled, or its attempt is over."""
    command = make_command(mosquitto.home)
    assert command.say("started", JOBWIRE_ATTEMPT="1").code == 0
    with command.store.locked(command.job_id) as locked:
        locked.replace(
            fold.next_attempt(locked.record, "n" * 43, time.time(), "the lease ran out"), cause="lease"
        )
    for pinned in (
        command.say("progress", JOBWIRE_ATTEMPT="1"),
        command.say("completed", "--for-attempt", "1"),
        command.run("--flush", "--for-attempt", "1"),
    ):
        assert (pinned.code, pinned.stdout) == (3, "")
        assert "stop working" in pinned.stderr
    assert command.say("started", JOBWIRE_ATTEMPT="2").line["seq"] == 2
    with command.store.locked(command.job_id) as locked:
        locked.replace(fold.cancel(locked.record, time.time(), "not needed"), cause="cancel")
    answer = command.say("progress")
    assert answer.code == 3
    assert "cancelled" in answer.stderr


def test_a_secret_is_replaced_and_never_echoed(
    mosquitto: MosquittoServer, make_command: MakeCommand, read: Read
) -> None:
    """The value of a secret-looking variable reaches neither the broker, nor the disk, nor the terminal.

    The event itself is not lost: it goes out without the secret, with a warning, unless `--strict` is given.
    """
    command = make_command(mosquitto.home)
    reader = read(mosquitto, command)
    secret = "sesame-0815-open"
    command.say("started")
    for words in (["--detail", f"used {secret}"], ["--data", f"key={secret}"]):
        answer = command.say("progress", "--strict", *words, DEPLOY_TOKEN=secret)
        assert (answer.code, answer.stdout) == (30, "")
        assert secret not in answer.stderr
    words = ["--detail", f"used {secret} in /home/me/x.py", "--data", f"key={secret}"]
    answer = command.say("progress", *words, DEPLOY_TOKEN=secret)
    assert (answer.code, answer.line["seq"]) == (0, 2)
    assert secret not in answer.stderr
    assert answer.stderr.count("publish_event: warning: the d") == 2
    reader.wait_for_seq(2)
    assert reader.accepted[1].event.detail == "used [redacted] in …/x.py"
    assert reader.accepted[1].event.data == {"key": "[redacted]"}
    kept = [
        path
        for path in mosquitto.home.rglob("*")
        if path.is_file() and secret in path.read_text(errors="replace")
    ]
    assert kept == []


def test_a_token_never_reaches_the_wire(
    mosquitto: MosquittoServer, make_command: MakeCommand, read: Read
) -> None:
    """The key signs; it is not sent, and not kept in outbox or history."""
    command = make_command(mosquitto.home)
    reader = read(mosquitto, command)
    command.say("started")
    reader.wait_for_seq(1)
    token = command.record().auth_token
    assert token.encode() not in reader.messages[0].payload
    history = Path(command.store.log_dir(command.job_id))
    assert all(token not in path.read_text() for path in history.iterdir())


def test_a_ticket_is_enough(
    broker: BrokerProcess, make_command: MakeCommand, read: Read, tmp_path: Path
) -> None:
    """From an empty folder with nothing but the ticket, over a certificate inside it."""
    command = make_command(broker.home)
    reader = read(broker, command)
    settings = broker.certificate_settings(command.job_id)
    layer: dict[str, str | int] = {
        "broker": settings.host,
        "port": settings.port,
        "protocol": settings.protocol,
        "ca_certs_pem": Path(str(settings.ca_certs)).read_text(),
        "certfile_pem": Path(str(settings.certfile)).read_text(),
        "keyfile_pem": Path(str(settings.keyfile)).read_text(),
    }
    ticket = tmp_path / "job.ticket"
    ticket.touch(0o600)
    ticket.write_bytes(
        encode_ticket(ticket_for(command.record(), broker=layer, topic_root=settings.topic_root))
    )
    for event in ("started", "progress"):
        answer = command.end(command.start_bare("--event", event, JOBWIRE_TICKET=str(ticket)))
        assert answer.code == 0, answer.stderr
    answer = command.end(
        command.start_bare("--event", "completed", "--ticket", str(ticket), "--confirm", "0.2")
    )
    assert answer.line["confirmed"] is False
    assert "did not confirm" in answer.stderr
    assert reader.wait_for_seq(3) == [1, 2, 3]
    again = command.end(command.start_bare("--event", "completed", "--ticket", str(ticket)))
    assert again.code == 20
    ticket.chmod(0o644)
    assert command.end(command.start_bare("--event", "progress", "--ticket", str(ticket))).code == 30
