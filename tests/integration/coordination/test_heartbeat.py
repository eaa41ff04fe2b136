"""Signs of life while the work blocks."""

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jobwire.coordination import agents
from jobwire.coordination.agents import Beat
from jobwire.coordination.heartbeat import Heartbeat, StorePulse, beat_while
from jobwire.coordination.store import CoordinationStore
from jobwire.core.errors import InvalidInputError, NotFoundError, StorageError
from jobwire.testing.waiting import wait_for


class Told:
    """A pulse that keeps what it is told, and fails or waits when asked to."""

    def __init__(self) -> None:
        self.beats: list[Beat] = []
        self.failures = 0
        self.free = threading.Event()
        self.free.set()

    def join(self, agent: str, joining: object) -> object:
        """Take note of who it is."""
        self.agent = agent
        return joining

    def beat(self, agent: str, said: Beat) -> None:
        """Keep it."""
        assert agent == self.agent
        assert self.free.wait(60)
        if self.failures:
            self.failures -= 1
            raise StorageError("the disk is full")
        self.beats.append(said)


def test_beats_go_on_while_the_work_blocks() -> None:
    """An agent that hangs in a call beats each interval all the same."""
    told = Told()
    with Heartbeat("a", told, interval_seconds=0.01):
        wait_for(lambda: len(told.beats) > 5)
    assert told.beats[-1].status == "stopped"


def test_the_latest_status_wins_and_is_told_at_once() -> None:
    """Of many statuses in a row the last one is told, long before the interval ends."""
    told = Told()
    with Heartbeat("a", told, interval_seconds=3600) as heartbeat:
        wait_for(lambda: told.beats)
        told.free.clear()
        for number in range(1000):
            heartbeat.update("working", task=f"T{number}", progress=number / 1000)
        told.free.set()
        wait_for(lambda: told.beats[-1] == Beat("working", "T999", 0.999))
        assert len(told.beats) <= 4


def test_updating_never_waits_for_the_disk() -> None:
    """The work says what it does and goes on, also while a beat is being written."""
    told = Told()
    with Heartbeat("a", told, interval_seconds=3600) as heartbeat:
        wait_for(lambda: told.beats)
        told.free.clear()
        heartbeat.update("working")
        heartbeat.update("blocked")
        told.free.set()
        wait_for(lambda: told.beats[-1].status == "blocked")


def test_stopping_wakes_it(tmp_path: Path) -> None:
    """A stop does not wait for the interval, and the last status is `stopped`."""
    heartbeat = Heartbeat("a", tmp_path, interval_seconds=86400).start()
    heartbeat.stop()
    heartbeat.stop()
    assert not heartbeat._thread.is_alive()
    assert agents.find(CoordinationStore(str(tmp_path)), "a").status == "stopped"


def test_a_beat_that_fails_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A full disk is told once, and the beats go on when there is room."""
    told = Told()
    told.failures = 3
    with caplog.at_level(logging.WARNING), Heartbeat("a", told, interval_seconds=0.01):
        wait_for(lambda: told.beats)
    assert len(caplog.records) == 1


def test_an_agent_that_nobody_knows_any_more_joins_again(tmp_path: Path) -> None:
    """A store that was made anew under a running agent has it with the next beat."""
    store = CoordinationStore(str(tmp_path))
    StorePulse(store).beat("a", Beat("working"))
    assert agents.find(store, "a").status == "working"


def test_beats_last_as_long_as_a_process(tmp_path: Path) -> None:
    """`--while-pid` beats until the process ends, however it ends, and says `stopped` then."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    store = CoordinationStore(str(tmp_path))
    heartbeat = Heartbeat("a", tmp_path, interval_seconds=0.05, status="working")
    watching = threading.Thread(target=beat_while, args=(process.pid, heartbeat))
    watching.start()

    def status() -> str:
        found = agents.present(store)
        return found[0].status if found else ""

    wait_for(lambda: status() == "working")
    process.kill()
    process.wait()
    assert process.stdin is not None
    process.stdin.close()
    watching.join(60)
    assert status() == "stopped"


def test_a_process_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """Nobody beats for a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with pytest.raises(NotFoundError):
        beat_while(process.pid, Heartbeat("a", tmp_path))
    with pytest.raises(InvalidInputError):
        Heartbeat("a", os.fspath(tmp_path), interval_seconds=0)
