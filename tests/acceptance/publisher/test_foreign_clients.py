"""Others speak the same language: Node.js and openssl sign, mosquitto's clients send and read."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobwire.core.settings import BrokerSettings
from jobwire.jobs.event import compose, encode_signed
from jobwire.testing import MosquittoServer, require

SIGNER = Path(__file__).with_name("foreign_signer.mjs")
MakeCommand = Callable[[Path], Any]
Read = Callable[..., Any]

DATA = {
    "ratio": 0.1,
    "tiny": 1e-7,
    "huge": 1.5e300,
    "zero": -0.0,
    "whole": 3.0,
    "list": [1, None, True, {"b": 1, "a": 2}],
    "text": 'quote " back \\ slash / tab \t bell \u0007 del \u007f line \u2028',
    "€": 1,
    "\r": 2,
    "1": 3,
    "ö": 4,
    "\U0001f602": 5,
    "\ufb33": 6,
}


def _node(mode: str, token: Path, stdin: bytes) -> bytes:
    answer = subprocess.run(
        [require("node"), str(SIGNER), mode, str(token)], input=stdin, capture_output=True, check=True
    )
    return answer.stdout


def _client(program: str, settings: BrokerSettings, *words: str) -> list[str]:
    assert settings.password
    return [
        require(program),
        *("-h", settings.host, "-p", str(settings.port), "--cafile", str(settings.ca_certs)),
        *("--tls-version", "tlsv1.3", "-u", str(settings.username), "-P", settings.password.reveal()),
        *("-q", "1", *words),
    ]


def _unsigned(job_id: str, seq: int, event: str, data: object) -> bytes:
    body = {
        "schema_version": 1,
        "seq": seq,
        "job_id": job_id,
        "event": event,
        "timestamp": "2026-01-01T00:00:00Z",
        "detail": "grüße 𝄞",
        "data": data,
    }
    return json.dumps(body).encode()


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    """Give a private file for a token."""
    path = tmp_path / "token"
    path.touch(0o600)
    return path


@pytest.mark.mosquitto
def test_an_event_signed_by_node_and_sent_by_mosquitto_pub_is_admitted(
    mosquitto: MosquittoServer, make_command: MakeCommand, read: Read, token_file: Path
) -> None:
    """A worker in another language, from the specification alone, is heard like our own."""
    command = make_command(mosquitto.home)
    reader = read(mosquitto, command)
    token_file.write_text(command.record().auth_token)
    for seq, event in enumerate(("started", "progress", "completed"), 1):
        signed = _node("sign", token_file, _unsigned(command.job_id, seq, event, DATA))
        retain = ["-r"] if event == "completed" else []
        sender = _client(
            "mosquitto_pub", mosquitto.settings("claude-worker"), "-t", reader.topic, "-s", *retain
        )
        subprocess.run(sender, input=signed, check=True, timeout=60)
    assert reader.wait_for_seq(3) == [1, 2, 3]
    assert reader.rejected == []
    assert reader.accepted[0].event.data["\U0001f602"] == 5


@pytest.mark.mosquitto
def test_an_event_signed_by_openssl_is_admitted(
    mosquitto: MosquittoServer, make_command: MakeCommand, read: Read
) -> None:
    """A shell script with openssl is enough to sign, where the event is written canonically."""
    command = make_command(mosquitto.home)
    reader = read(mosquitto, command)
    # Keys in order, no blanks: canonical by hand (RFC 8785).
    body = (
        f'{{"data":{{"percent":5}},"detail":"by hand","event":"started","job_id":"{command.job_id}",'
        '"schema_version":1,"seq":1,"timestamp":"2026-01-01T00:00:00Z"}'
    )
    script = 'printf %s "$BODY" | openssl dgst -sha256 -mac HMAC -macopt "key:$TOKEN" -r | cut -d" " -f1'
    openssl = shutil.which("openssl") or require("openssl")
    answer = subprocess.run(
        ["/bin/sh", "-c", script],
        env={
            "BODY": body,
            "TOKEN": command.record().auth_token,
            "PATH": f"{Path(openssl).parent}:/usr/bin:/bin",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    signed = body.replace('"percent":5', f'"hmac_sig":"{answer.stdout.strip()}","percent":5')
    sender = _client("mosquitto_pub", mosquitto.settings("claude-worker"), "-t", reader.topic, "-m", signed)
    subprocess.run(sender, check=True, timeout=60)
    assert reader.wait_for_seq(1) == [1]


@pytest.mark.mosquitto
def test_mosquitto_sub_reads_our_bytes_and_node_verifies_them(
    mosquitto: MosquittoServer, make_command: MakeCommand, token_file: Path, tmp_path: Path
) -> None:
    """What `publish_event` sends is genuine to an independent verifier, and one changed digit is not."""
    command = make_command(mosquitto.home)
    token_file.write_text(command.record().auth_token)
    data = tmp_path / "data.json"
    data.write_text(json.dumps(DATA))
    settings = mosquitto.settings("hermes")
    topic = f"{settings.topic_root}/{command.job_id}/events"
    assert command.say("started").code == 0
    answer = command.say("completed", "--detail", "grüße 𝄞", "--data-json", str(data), "--data", "files=30")
    assert answer.code == 0, answer.stderr
    reader = _client("mosquitto_sub", settings, "-t", topic, "-C", "1", "-N", "-W", "20")
    payload = subprocess.run(reader, capture_output=True, check=True, timeout=60).stdout
    assert json.loads(payload)["seq"] == 2
    assert _node("verify", token_file, payload) == b"genuine"
    assert _node("verify", token_file, payload.replace(b'"files":30', b'"files":31')) == b"forged"


def test_node_and_python_agree_on_the_signature(token_file: Path) -> None:
    """The same event gets the same signature from both, whatever its figures and keys."""
    token = "t" * 43
    token_file.write_text(token)
    event = compose(
        seq=1,
        job_id="0a1b2c3d",
        event="started",
        timestamp="2026-01-01T00:00:00Z",
        detail="grüße 𝄞",
        data=DATA,
    )
    ours = json.loads(encode_signed(event, token))["data"]["hmac_sig"]
    theirs = json.loads(_node("sign", token_file, _unsigned("0a1b2c3d", 1, "started", DATA)))
    assert theirs["data"]["hmac_sig"] == ours
