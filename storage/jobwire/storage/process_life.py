"""Which process a number means: numbers are used again, a number with its start time is not."""

from __future__ import annotations

import contextlib
import functools
import os
import select
import signal
from typing import NamedTuple

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class ProcessSeen(NamedTuple):
    """A process as proc(5) shows it: which life of its number, and whether it has its terminal."""

    life: str
    # Of its terminal: itself, or a program that it runs there now (an editor, a command of a shell).
    in_foreground: bool
    zombie: bool


def see(pid: int) -> ProcessSeen | None:
    """Return the process; None where there is none of that number."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    # proc(5): state, ppid, pgrp, session, tty_nr, tpgid ... starttime.
    group, terminals = fields[2], fields[5]
    return ProcessSeen(f"{boot()}.{fields[19].decode()}", group == terminals, fields[0] == b"Z")


def life_of(pid: int) -> str:
    """Return which life of the number runs now; empty where none does."""
    seen = see(pid)
    return "" if seen is None or seen.zombie else seen.life


@functools.cache
def boot() -> str:
    """Return what is another after each start of the machine."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read(8)
    except OSError:
        return ""


def ended_within(pid: int, life: str, seconds: float) -> bool:
    """Wait up to `seconds` for the end of that life of the number; tell whether it has ended."""
    try:
        # Its descriptor first, then whether it is the one that is meant (pidfd_open(2)).
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if life_of(pid) != life:
            return True
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(descriptor)


def send_to(pid: int, life: str, number: signal.Signals, *, group: bool = False) -> None:
    """Send a signal to that life of the number, or to its process group; nothing where it has ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        descriptor = os.pidfd_open(pid)
        try:
            if life_of(pid) == life:
                if group:
                    os.killpg(os.getpgid(pid), number)
                else:
                    signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)
