"""The server as a process: routes, access, headers, streams, the one action."""

import http.client
import json
import os
import pwd
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobwire.testing.dashboard_process import DashboardProcess
from jobwire.testing.fleet_writer import FleetWriter
from jobwire.testing.waiting import wait_for

from . import conftest
from .conftest import Answer


@pytest.fixture
def server(writer: FleetWriter) -> Iterator[DashboardProcess]:
    """Give a server that allows actions."""
    with DashboardProcess(writer.home, "--allow-actions") as made:
        wait_for(lambda: ask(made, "/healthz")[0] == 200, what="a fleet")
        yield made


def ask(server: DashboardProcess, path: str, **sent: str) -> Answer:
    """Return (status, headers, body) for whoever has the token; header names are given with _ for -."""
    return conftest.ask(server, path, **{"authorization": server.authorization, **sent})


class Stream:
    """An open stream; `next` returns its next message."""

    def __init__(self, server: DashboardProcess, path: str, last_id: str = "") -> None:
        self._link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        headers = {"authorization": server.authorization}
        if last_id:
            headers["last-event-id"] = last_id
        self._link.request("GET", path, headers=headers)
        self._answer = self._link.getresponse()
        self.last_id = last_id

    def next(self, *kinds: str) -> tuple[str, Any]:
        """Return (event, data) of the next message, of these kinds if any are given."""
        while True:
            fields: dict[str, str] = {}
            while line := self._answer.readline().decode().rstrip("\n"):
                name, _, value = line.partition(": ")
                fields[name] = value
            if "data" in fields and (not kinds or fields["event"] in kinds):
                self.last_id = fields["id"]
                return fields["event"], json.loads(fields["data"])

    def close(self) -> None:
        """Leave, as a closed tab does."""
        self._answer.close()
        self._link.close()


def test_page_and_its_files_are_served_with_strict_headers(server: DashboardProcess) -> None:
    """Everything comes from here, and the policy forbids all else: inline code, frames, foreign hosts."""
    for path in ("/", "/jobs/0a1b2c3d", "/charts", "/assets/app.js", "/assets/app.css", "/assets/icon.svg"):
        status, headers, body = ask(server, path)
        assert status == 200
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "http://" not in body.replace("http://www.w3.org/", "")
        assert "https://" not in body
    assert ask(server, "/assets/../server.py")[0] == 404
    assert ask(server, "/assets/nothing.js")[0] == 404


def test_unchanged_file_is_not_sent_again(server: DashboardProcess) -> None:
    """A file is asked for again and confirmed by its tag."""
    _, headers, _ = ask(server, "/assets/app.js")
    assert ask(server, "/assets/app.js", if_none_match=headers["etag"])[0] == 304


def test_foreign_name_gets_no_answer(server: DashboardProcess) -> None:
    """DNS rebinding: a foreign name that leads here is refused, for data and for the page."""
    for path in ("/", "/api/stream", "/metrics", "/healthz"):
        assert ask(server, path, host="evil.example:80")[0] == 421


def test_fleet_stream_resumes_exactly(server: DashboardProcess, writer: FleetWriter) -> None:
    """A stream that breaks off goes on behind the last message: no row is lost, none comes twice."""
    job = writer.start("one")
    stream = Stream(server, "/api/stream")
    stream.next("fleet")
    writer.say(job, "progress", "1")
    while True:
        _, data = stream.next("update")
        if [row["detail"] for row in data["rows"]] == ["1"]:
            break
    stream.close()
    writer.say(job, "progress", "2")
    writer.say(job, "progress", "3")
    again = Stream(server, "/api/stream", stream.last_id)
    details: list[str] = []
    while "3" not in details:
        kind, data = again.next()
        assert kind == "update"
        details += [row["detail"] for row in data["rows"]]
    assert set(details) <= {"2", "3"}
    again.close()


def test_job_stream_is_exact_over_a_restart(server: DashboardProcess, writer: FleetWriter) -> None:
    """The history goes on at its place in the file, also on a server that was started since."""
    job = writer.start("one")
    seen: list[int] = []

    def read(stream: Stream, until: int) -> None:
        while until not in seen:
            _, data = stream.next("lines")
            seen.extend(line["seq"] for line in data if line["kind"] == "event")

    writer.say(job, "progress", "2")
    stream = Stream(server, f"/api/jobs/{job}/stream")
    read(stream, 2)
    stream.close()
    writer.say(job, "progress", "3")
    server.stop()
    writer.say(job, "progress", "4")
    server.start()
    again = Stream(server, f"/api/jobs/{job}/stream", stream.last_id)
    read(again, 4)
    writer.say(job, "progress", "5")
    read(again, 5)
    again.close()
    assert seen == [1, 2, 3, 4, 5]


def test_job_answers_hold_no_secret(server: DashboardProcess, writer: FleetWriter) -> None:
    """Neither record nor history nor fleet hold a token or a key's path, whatever its worker said."""
    job = writer.start("one", broker={"keyfile": "/keys/mine.key", "certfile": "/keys/mine.pem"})
    with writer.store.locked(job) as locked:
        # Refused at registration, but a record may have been written by other means.
        secret = {**locked.record.broker, "password": "hunter2!"}
        token = locked.replace(locked.record._replace(broker=secret), cause="test").auth_token
    writer.say(job, "progress", f"my token is {token}", note=[token])
    stream = Stream(server, f"/api/jobs/{job}/stream")
    _, history = stream.next("lines")
    stream.close()
    fleet = Stream(server, "/api/stream")
    _, row = fleet.next("fleet")
    fleet.close()
    text = json.dumps([history, row]) + ask(server, f"/api/jobs/{job}")[2] + ask(server, "/metrics")[2]
    assert not [secret for secret in (token, "hunter2!", "mine.key", "hmac_sig") if secret in text]
    assert "[redacted]" in text


@pytest.mark.parametrize(
    ("path", "status"),
    [("/api/jobs/ffffffff", 404), ("/api/jobs/..%2f..%2fetc", 404), ("/api/jobs/XYZ", 400),
     ("/api/nothing", 404), ("/api/jobs/ffffffff/stream", 404)],
)  # fmt: skip
def test_what_is_not_there(server: DashboardProcess, path: str, status: int) -> None:
    """Unknown jobs and paths are named as such."""
    assert ask(server, path)[0] == status


def test_cancel_is_done_once_and_only_by_our_page(server: DashboardProcess, writer: FleetWriter) -> None:
    """A cancellation needs our own origin; it is durable, and repeating it says that it was done before."""
    job = writer.start("one")
    path, body = f"/api/jobs/{job}/cancel", '{"reason": "not needed"}'
    ours = f"http://127.0.0.1:{server.port}"
    for origin in ("http://evil.example", "null"):
        assert ask(server, path, method="POST", body=body, origin=origin)[0] == 403
    assert writer.store.get(job).status == "running"
    status, _, text = ask(server, path, method="POST", body=body, origin=ours)
    assert (status, json.loads(text)["cancelled"]) == (200, True)
    assert writer.store.get(job).status == "cancelled"
    assert json.loads(ask(server, path, method="POST", origin=ours)[2])["cancelled"] is False
    done = writer.start("two")
    writer.say(done, "completed", "done")
    assert ask(server, f"/api/jobs/{done}/cancel", method="POST", origin=ours)[0] == 409
    assert ask(server, path, method="POST", body="[]", origin=ours)[0] == 400
    assert ask(server, path, method="POST", body="x" * 5000, origin=ours)[0] == 413
    assert ask(server, path, method="GET")[0] == 405


def test_an_answer_is_given_once_and_only_by_our_page(server: DashboardProcess, writer: FleetWriter) -> None:
    """It needs our own origin; it is durable, names who gave it, and a later one learns that it came late."""
    job = writer.start("asks")
    body = {"id": "which", "kind": "question", "text": "Which?"}
    writer.say(job, "permission_required", "Which?", request=body)
    path, said = f"/api/jobs/{job}/answer", json.dumps({"request": "which", "text": "\u00e9" * 4000})
    ours = f"http://127.0.0.1:{server.port}"
    assert ask(server, path, method="POST", body=said, origin="http://evil.example")[0] == 403
    for wrong in ("{}", '{"request": 1, "text": "a"}', '{"request": "which", "text": ""}'):
        assert ask(server, path, method="POST", body=wrong, origin=ours)[0] == 400, wrong
    assert ask(server, path, method="POST", body='{"text": "' + "x" * 100_000 + '"}', origin=ours)[0] == 413
    assert ask(server, path, method="POST", body=said, origin=ours)[0] == 200
    (asked,) = writer.store.get(job).requests
    assert (asked.answer, asked.answered_through) == ("\u00e9" * 4000, "page")
    status, _, text = ask(server, path, method="POST", body=said, origin=ours)
    assert (status, "already answered by" in text) == (409, True)


def test_cancel_names_its_author(server: DashboardProcess, writer: FleetWriter, tmp_path: Path) -> None:
    """Record and history say who cancelled: the page's owner, or the page where several know its token."""
    owner = pwd.getpwuid(os.getuid()).pw_name
    first, second = writer.start("one"), writer.start("two")
    ask(server, f"/api/jobs/{first}/cancel", method="POST", body='{"reason": "not needed"}')
    assert writer.store.get(first).detail == f"not needed (by {owner})"
    assert writer.store.audit(first).tail(1)[0]["cause"] == f"not needed (by {owner})"
    password = tmp_path / "password"
    password.write_text("correct horse battery")
    password.chmod(0o600)
    with DashboardProcess(writer.home, "--allow-actions", "--token-file", str(password)) as shared:
        known = "Bearer correct horse battery"
        ask(shared, f"/api/jobs/{second}/cancel", method="POST", authorization=known)
    assert writer.store.get(second).detail == f"cancelled (by page on {socket.gethostname()})"


def test_job_that_goes_while_its_page_is_open_is_told(server: DashboardProcess, writer: FleetWriter) -> None:
    """A purged job ends its stream with a word, not with an error of the server."""
    job = writer.start("one")
    stream = Stream(server, f"/api/jobs/{job}/stream")
    stream.next("lines")
    (writer.home / "jobs" / f"{job}.json").unlink()
    assert stream.next("gone")[1]["error"]
    stream.close()
    assert server.errors() == ""


def test_failure_is_taken_out_by_a_command(server: DashboardProcess, writer: FleetWriter) -> None:
    """A failed job's page shows the command that dismisses it; then it counts as done."""
    job = writer.start("one")
    writer.say(job, "error", "tests fail")

    def group() -> object:
        return json.loads(ask(server, f"/api/jobs/{job}")[2])["row"]["group"]

    def commands() -> str:
        return json.dumps(json.loads(ask(server, f"/api/jobs/{job}")[2])["commands"])

    wait_for(lambda: group() == "failed")
    assert f"jobwire dismiss {job}" in commands()
    writer.queue.dismiss(job)
    wait_for(lambda: group() == "done")
    assert "dismiss" not in commands()


def test_without_actions_the_page_is_read_only(writer: FleetWriter) -> None:
    """Unless it was started with --allow-actions, the server cancels nothing."""
    job = writer.start("one")
    with DashboardProcess(writer.home) as server:
        ours = f"http://127.0.0.1:{server.port}"
        status, _, text = ask(server, f"/api/jobs/{job}/cancel", method="POST", origin=ours)
    assert status == 403
    assert "--allow-actions" in text
    assert writer.store.get(job).status == "running"


def test_prometheus_text(server: DashboardProcess, writer: FleetWriter) -> None:
    """The endpoint has conventional names, and no label holds a job, a session or a text."""
    job = writer.start("a title", agent_session="a-session")
    writer.say(job, "permission_required", "a detail")
    wait_for(lambda: 'jobwire_fleet_jobs{group="waiting"} 1.0' in ask(server, "/metrics")[2])
    status, headers, text = ask(server, "/metrics")
    assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert 'jobwire_jobs{status="running"} 1.0' in text
    assert 'jobwire_messages_total{verdict="bad_signature"} 0.0' in text
    assert not [word for word in (job, "a title", "a-session", "a detail") if word in text]
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(samples) < 100
    assert all(f"# HELP {line.split()[2]}" in text for line in text.splitlines() if line.startswith("# TYPE"))


def test_closed_pages_are_forgotten(server: DashboardProcess) -> None:
    """A tab that is closed costs nothing any more."""
    streams = [Stream(server, "/api/stream") for _ in range(5)]
    for stream in streams:
        stream.next("fleet")
    wait_for(lambda: "jobwire_dashboard_pages 5.0" in ask(server, "/metrics")[2])
    for stream in streams:
        stream.close()
    wait_for(lambda: "jobwire_dashboard_pages 0.0" in ask(server, "/metrics")[2])
