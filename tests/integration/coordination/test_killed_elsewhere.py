"""A request of an agent on another host, its process killed after each commit of the store that it makes."""

import shutil
import tempfile
from pathlib import Path

import pytest

from jobwire.coordination import reading, sending
from jobwire.coordination.marks import behind, catch_up
from jobwire.coordination.message import NewMessage
from jobwire.coordination.remote_form import RemoteRequest
from jobwire.coordination.remote_keys import AgentKeys
from jobwire.coordination.remote_service import RemoteService
from jobwire.coordination.store import CoordinationStore
from jobwire.core.topics import Topics
from jobwire.registry.store import RecordStore
from jobwire.testing import ManualClock
from jobwire.testing.broken_disks import Crash
from jobwire.testing.in_memory import InMemoryBroker
from jobwire.testing.memory import memory_directory
from jobwire.testing.stopping_store import StoppingStore

TASK = NewMessage("lead", ("builder",), kind="task", subject="fix it", body="now")
_ENDED = {
    "update": "in_progress",
    "done": "done",
    "fail": "failed",
    "cancel": "cancelled",
    "reply": "claimed",
}


def _service(store: CoordinationStore) -> RemoteService:
    return RemoteService(
        store=store,
        keys=AgentKeys(store.home),
        topics=Topics(),
        connect=lambda: InMemoryBroker().transport("nobody"),
        journal=lambda _: None,
    )


def _killed(home: str, clock: ManualClock, request: RemoteRequest, commit: int) -> bool:
    """Tell whether the process was killed: after that commit."""
    store = StoppingStore(home, clock=clock, stop_after=commit)
    try:
        _service(store).answer(request)
    except Crash:
        return True
    finally:
        store.close()
    return False


@pytest.mark.parametrize("verb", sorted(_ENDED))
def test_a_request_is_done_once_wherever_its_process_was_killed(verb: str, tmp_path: Path) -> None:
    """The next process gets it again: message, record and thread agree, and the answer is one."""
    clock = ManualClock()
    store = CoordinationStore(str(tmp_path), clock=clock)
    thread = sending.send(store, TASK).thread_id
    claim = RemoteRequest("builder", "c", "claim", {"thread_id": thread}, clock.now())
    token = _service(store).answer(claim).outcome()["lease_token"]
    store.close()
    args: dict[str, object] = {"thread_id": thread, "token": token, "summary": "said", "body": "b" * 5000}
    if verb == "cancel":
        args = {"thread_id": thread, "reason": "said"}
    elif verb == "reply":
        del args["token"]
    request = RemoteRequest("builder", "r", verb, args, clock.now())
    commit, killed = 0, True
    while killed:
        commit += 1
        with tempfile.TemporaryDirectory(dir=memory_directory()) as folder:
            home = str(shutil.copytree(tmp_path, Path(folder, "home")))
            killed = _killed(home, clock, request, commit)
            again = CoordinationStore(home, clock=clock)
            first = _service(again).answer(request).outcome()
            assert _service(again).answer(request).outcome() == first
            catch_up(again)
            assert not behind(again)
            said = [one.summary for one in reading.messages_of(again, thread)]
            assert said.count("said") == 1
            shown = reading.thread_of(again, thread)
            assert shown.status == _ENDED[verb]
            record = RecordStore(home, clock=clock).get(str(shown.job_id))
            assert record.terminal == (verb in {"done", "fail", "cancel"})
            again.close()
    assert commit > 1
