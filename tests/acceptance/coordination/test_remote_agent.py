"""An agent on another host: a ticket, a real broker, a real `jobwire serve`, and a broker that is killed."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobwire.coordination.agents import present
from jobwire.coordination.heartbeat import Heartbeat
from jobwire.coordination.message import NewMessage
from jobwire.coordination.remote_agent import RemoteAgent
from jobwire.coordination.sending import send
from jobwire.coordination.store import CoordinationStore
from jobwire.testing import BrokerProcess, EmbeddedServer, MosquittoServer, require, wait_for
from jobwire.testing.watching import bare_environment


@pytest.fixture(params=["mosquitto", "embedded"])
def server(request: pytest.FixtureRequest) -> Iterator[BrokerProcess]:
    """Give each kind of broker, with a registry process beside it."""
    if request.param == "mosquitto":
        require("mosquitto")
    with (MosquittoServer if request.param == "mosquitto" else EmbeddedServer)() as one:
        command = [sys.executable, "-m", "jobwire.cli.main", "serve", "--home", str(one.home), "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=bare_environment(), text=True)
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["ready"] is True
            yield one
        finally:
            process.terminate()
            process.communicate(timeout=60)


def _command(*words: str, code: int = 0) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "jobwire.cli.main", *words, "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=bare_environment(),
    )
    assert done.returncode == code, done
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_an_agent_elsewhere_asks_and_hears_and_survives_a_killed_broker(
    server: BrokerProcess, tmp_path: Path
) -> None:
    """It is woken, is seen, and what a dead broker cannot take is kept and sent once."""
    ticket = tmp_path / "builder.ticket"
    said = _command("agent", "ticket", "builder", "--out", str(ticket), "--home", str(server.home))
    assert (said["agent_id"], oct(ticket.stat().st_mode)[-3:]) == ("builder", "600")
    store = CoordinationStore(str(server.home))
    asked = _command(
        "inbox", "send", "--ticket", str(ticket), "--to", "lead", "--kind", "question", "--summary", "port?"
    )
    with (
        RemoteAgent(ticket, present=True) as builder,
        Heartbeat("builder", builder, interval_seconds=1) as beat,
    ):
        beat.update("working", task="T7")
        wait_for(lambda: [view.current_task for view in present(store)] == ["T7"], deadline_seconds=60)
        found: list[Any] = []
        waiting = threading.Thread(
            target=lambda: found.append(builder.wait("wait-reply", {"thread_id": asked["thread_id"]}, 120.0))
        )
        waiting.start()
        answer = NewMessage("lead", ("builder",), "answer", summary="8883", thread_id=asked["thread_id"])
        send(store, answer)
        waiting.join(120)
        assert found[0]["message"]["summary"] == "8883"
    wait_for(lambda: present(store)[0].status == "stopped", deadline_seconds=60)
    server.kill()
    for number in range(2):
        words = ("--to", "lead", "--kind", "result", "--summary", f"kept {number}")
        failed = _command("inbox", "send", "--ticket", str(ticket), *words, code=60)
        assert failed["error"]["kept"] is True
    server.start()
    with RemoteAgent(ticket) as builder:
        wait_for(lambda: _sent(builder), deadline_seconds=120)
    rows = store.rows("messages_after", {"after": 0, "limit": 100})
    assert [row[14] for row in rows if row[13] == "result"] == ["kept 0", "kept 1"]
    store.close()


def _sent(agent: RemoteAgent) -> bool:
    try:
        return agent.flush() == 0
    except Exception:  # noqa: BLE001 - the broker or the registry process is not back yet
        return False
