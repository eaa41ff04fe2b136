"""Publishers that share no code with us: another signer, another MQTT client, another language."""

import hashlib
import hmac
import json
import subprocess
from pathlib import Path

import rfc8785

from jobwire.core.settings import BrokerSettings
from jobwire.core.topics import Topics
from jobwire.testing import MosquittoServer, require
from jobwire.testing.watching import JobHouse, Watcher

STAMP = "2026-01-02T03:04:05Z"

NODE_SIGNER = """
const crypto = require("crypto");
const {token, event} = JSON.parse(require("fs").readFileSync(0, "utf8"));
const canonical = (v) => v === null || typeof v !== "object" ? JSON.stringify(v)
  : Array.isArray(v) ? "[" + v.map(canonical).join(",") + "]"
  : "{" + Object.keys(v).sort().map((k) => JSON.stringify(k) + ":" + canonical(v[k])).join(",") + "}";
const sign = crypto.createHmac("sha256", token).update(canonical(event), "utf8").digest("hex");
event.data.hmac_sig = sign;
process.stdout.write(JSON.stringify(event, null, 2));
"""


def event(job: str, seq: int, kind: str, detail: str, **data: object) -> dict[str, object]:
    """Return an unsigned event as SPEC section 2 describes it."""
    return {
        "schema_version": 1,
        "seq": seq,
        "job_id": job,
        "event": kind,
        "timestamp": STAMP,
        "detail": detail,
        "data": data,
    }


def signed_by_hand(body: dict[str, object], token: str) -> bytes:
    """Sign with the standard library and the rfc8785 package, and indent as nobody of us would."""
    message = rfc8785.dumps(body)  # type: ignore[arg-type]  # JSON throughout
    signature = hmac.new(token.encode(), message, hashlib.sha256).hexdigest()
    data = body["data"]
    assert isinstance(data, dict)
    return json.dumps({**body, "data": {**data, "hmac_sig": signature}}, indent=4).encode()


def signed_by_node(body: dict[str, object], token: str) -> bytes:
    """Sign in JavaScript, whose numbers RFC 8785 is made of.

    The token goes through standard input: it may begin with a hyphen, which node would take for an option.
    """
    asked = json.dumps({"token": token, "event": body}).encode()
    command = [require("node"), "-e", NODE_SIGNER]
    return subprocess.run(command, input=asked, capture_output=True, check=True, timeout=60).stdout


def mosquitto_pub(
    settings: BrokerSettings, topic: str, payload: bytes, folder: Path, *, retain: bool
) -> None:
    """Publish a file with Mosquitto's own client."""
    path = folder / "payload"
    path.write_bytes(payload)
    password = settings.password.reveal() if settings.password else ""
    command = [require("mosquitto_pub"), "-h", settings.host, "-p", str(settings.port), "-q", "1",
               "--cafile", str(settings.ca_certs), "-u", str(settings.username), "-P", password,
               "-t", topic, "-f", str(path), *(["-r"] if retain else [])]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def test_mosquitto_pub_with_independent_signers(mosquitto: MosquittoServer, tmp_path: Path) -> None:
    """Events signed by hand and by Node.js, sent by mosquitto_pub, are as good as ours."""
    house = JobHouse(mosquitto.home)
    job = house.register()
    token = house.record(job).auth_token
    settings = mosquitto.settings("claude-worker")
    topic = Topics(mosquitto.topic_root).events(job)
    first = signed_by_hand(event(job, 1, "started", "ünï \U0001f600", ratio=0.1, big=1e21), token)
    second = signed_by_node(
        event(job, 2, "progress", "日本 \u2028", percent=50.5, nested={"b": [1, None]}), token
    )
    forged = signed_by_hand(event(job, 3, "completed", "forged"), "x" * 43)
    last = signed_by_hand(event(job, 3, "completed", "by hand"), token)
    with Watcher(mosquitto.home, "--job", job, "--wall-timeout", "60") as watcher:
        watcher.wait_until_watching()
        for payload in (first, second, forged, last):
            mosquitto_pub(settings, topic, payload, tmp_path, retain=payload in (forged, last))
        assert watcher.wait() == 0, watcher.errors()
        assert watcher.events() == [(1, "started"), (2, "progress"), (3, "completed")]
        assert watcher.lines()[1]["data"] == {"percent": 50.5, "nested": {"b": [1, None]}}
        assert watcher.lines()[2]["detail"] == "by hand"
        assert "bad_signature" in watcher.errors()


def test_a_retained_end_from_before(mosquitto: MosquittoServer, tmp_path: Path) -> None:
    """A watcher that comes after a foreign job's end finds it retained at the broker."""
    house = JobHouse(mosquitto.home)
    job = house.register()
    token = house.record(job).auth_token
    settings = mosquitto.settings("claude-worker")
    topic = Topics(mosquitto.topic_root).events(job)
    for seq, kind in ((1, "started"), (2, "error")):
        payload = signed_by_hand(event(job, seq, kind, f"event {seq}"), token)
        mosquitto_pub(settings, topic, payload, tmp_path, retain=seq == 2)
    with Watcher(mosquitto.home, "--job", job, "--wall-timeout", "60") as watcher:
        assert watcher.wait() == 1
        assert watcher.events() == [(2, "error")]
