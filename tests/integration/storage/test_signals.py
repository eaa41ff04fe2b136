"""Signals reach their actions and never stop the process that waits for them."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from jobwire.storage.signals import delivered, stop_event
from jobwire.testing.descriptors import nothing_left_open

# Waits on an event that a signal sets, as every long-running command does, some thousand times a second.
_WAITER = """
import signal, sys, threading
from jobwire.storage.signals import delivered

poked, stop = threading.Event(), threading.Event()
with delivered({signal.SIGUSR1: poked.set, signal.SIGTERM: stop.set}):
    print("ready", flush=True)
    while not stop.is_set():
        if poked.wait(0.0005):
            poked.clear()
            sys.stdout.write("poked\\n")
            sys.stdout.flush()
print("ended", flush=True)
"""


def test_hundreds_of_signals_never_hang_a_waiting_process() -> None:
    """A process that waits on the event that its signals set answers each of 500 and ends at the last."""
    with subprocess.Popen([sys.executable, "-c", _WAITER], stdout=subprocess.PIPE, text=True) as waiter:
        assert waiter.stdout is not None
        try:
            assert waiter.stdout.readline() == "ready\n"
            for _ in range(500):
                waiter.send_signal(signal.SIGUSR1)
                assert waiter.stdout.readline() == "poked\n"
            for _ in range(500):
                waiter.send_signal(signal.SIGUSR1)  # and a storm that nobody waits for
            waiter.send_signal(signal.SIGTERM)
            assert waiter.stdout.read().endswith("ended\n")
            assert waiter.wait(60) == 0
        finally:
            waiter.kill()


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Check that the test leaves no descriptor open."""
    with nothing_left_open():
        yield


def test_blocks_nest_and_leave_nothing(descriptors: None) -> None:
    """An inner block takes no signal of the outer one; at the end handlers and descriptors are as before."""
    before = signal.getsignal(signal.SIGUSR1)
    threads = set(threading.enumerate())
    heard: list[str] = []
    outer = {signal.SIGUSR1: lambda: heard.append("outer"), signal.SIGUSR2: lambda: heard.append("other")}
    with delivered(outer):
        with delivered({signal.SIGUSR1: lambda: heard.append("inner")}):
            os.kill(os.getpid(), signal.SIGUSR1)
            os.kill(os.getpid(), signal.SIGUSR2)
        os.kill(os.getpid(), signal.SIGUSR1)
    assert heard == ["inner", "other", "outer"]
    assert signal.getsignal(signal.SIGUSR1) is before
    assert signal.set_wakeup_fd(-1) == -1
    # Threads of others may end meanwhile: ours are those that were not there before.
    assert set(threading.enumerate()) <= threads


def test_a_signal_of_the_block_has_had_its_action_at_the_end() -> None:
    """A signal that comes just before the end is not lost, and its action may take its time."""
    done = threading.Event()
    leaving = threading.Event()

    def act() -> None:
        leaving.wait(60)
        done.set()

    with delivered({signal.SIGUSR1: act}):
        os.kill(os.getpid(), signal.SIGUSR1)
        leaving.set()
    assert done.is_set()


def test_other_signals_do_not_disturb() -> None:
    """A signal that somebody else handles comes through the same pipe and has no action."""
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda number, _: seen.append(number))
    try:
        with stop_event() as stop:
            os.kill(os.getpid(), signal.SIGUSR2)
            assert not stop.is_set()
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop.wait(60)
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert seen == [signal.SIGUSR2]
