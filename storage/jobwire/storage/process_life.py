"""What proc(5) says of processes: which life a number means, and whether we run inside a job.

Numbers are used again, a number with its start time is not.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import signal
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
# What a worker's environment names (docs/settings.md).
_JOB_NAMES = (b"JOBWIRE_JOB=", b"JOBWIRE_TICKET=")
_MOST_ANCESTORS = 64
_MAX_READ = 1 << 20


class ProcessSeen(NamedTuple):
    """A process as proc(5) shows it: which life of its number, and whether it has its terminal."""

    life: str
    # Of its terminal: itself, or a program that it runs there now (an editor, a command of a shell).
    in_foreground: bool
    zombie: bool


def see(pid: int) -> ProcessSeen | None:
    """Return the process; None where there is none of that number."""
    fields = stat_of(pid)
    if not fields:
        return None
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


def enclosing_job(environ: Mapping[str, str]) -> str | None:
    """Return the job, or the ticket, of the process or of its nearest ancestor that has one; else None.

    What another user's process holds is not told, and is none of this user's jobs.
    """
    for name in _JOB_NAMES:
        if value := environ.get(name[:-1].decode()):
            return value
    parent = os.getppid()
    for _ in range(_MOST_ANCESTORS):
        if parent <= 1:
            return None
        if (found := _job_in(parent)) is not None:
            return found
        fields = stat_of(parent)
        parent = int(fields[1]) if fields else 0
    return None


def _job_in(pid: int) -> str | None:
    """Return what the environment that a process was started with names."""
    for entry in _read(f"/proc/{pid}/environ").split(b"\0"):
        for name in _JOB_NAMES:
            if entry.startswith(name) and len(entry) > len(name):
                return os.fsdecode(entry[len(name) :])
    return None


def stat_of(pid: int) -> list[bytes]:
    """Return state, ppid, pgrp, session, tty_nr, tpgid ... starttime; nothing where it has ended."""
    # The name before them, in brackets, may hold anything.
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_READ)
    except OSError:
        return b""
