"""`serve.json`: how the registry process is doing, for healthchecks and for people.

Its presence also tells publishers on this disk that a registry process looks after the home: they
keep their events until it has confirmed them, also while it is down. It stays after a clean end.
"""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from jobwire.core.clock import Clock, epoch, utc_timestamp
from jobwire.core.errors import JobwireError, NotFoundError, StorageError, UnreachableError
from jobwire.registry.layout import SERVE_FILE, SERVE_LOCK, HomeLayout
from jobwire.storage import file_lock
from jobwire.storage.durable import replace_atomically, replace_durably
from jobwire.storage.failures import storage_failure

# Written every second; a process that has not managed it for so long hangs.
STALE_SECONDS = 15.0
# What is journaled is folded within some five seconds, many jobs at once included.
BEHIND_SECONDS = 30.0
# So many jobs that cannot be folded, if they are half of all, and it is the disk and not they.
_MANY = 3
# Less room than a health file takes.
_NO_ROOM = 64 << 10


class Health(NamedTuple):
    """What serve.json says, whether its process runs (it holds the lock), and the bytes free on its disk."""

    facts: Mapping[str, Any]
    running: bool
    free_bytes: int | None = None


def write(home: HomeLayout, facts: Mapping[str, object]) -> None:
    """Replace serve.json in one step; flushed only where there was none. Raises StorageError.

    What it says is soon said again, but that it is there is a promise to publishers.
    """
    body = {**facts, "updated_at": utc_timestamp(home.clock.now())}
    path, payload = _path(home), (json.dumps(body, indent=1) + "\n").encode()
    if os.path.exists(path):  # noqa: PTH110 - as everywhere in the registry
        replace_atomically([(path, payload)], files=home.files)
    else:
        replace_durably(path, payload, files=home.files)


def read(home: HomeLayout) -> Health:
    """Return the present health; raises NotFoundError where no registry process ever worked here."""
    path = _path(home)
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - as everywhere in the registry
            facts = json.loads(file.read())
    except FileNotFoundError:
        raise NotFoundError(
            f"no registry process works on {home.home}", hint="start one: jobwire serve"
        ) from None
    except OSError as error:
        raise storage_failure("read", path, error) from error
    except ValueError:
        facts = None
    return Health(facts if isinstance(facts, dict) else {}, is_running(home), _free_bytes(home.home))


def is_running(home: HomeLayout) -> bool:
    """Tell whether a registry process works on this home now."""
    return file_lock.is_held(home.lock_path(SERVE_LOCK))


def verdict(health: Health, clock: Clock) -> JobwireError | None:
    """Return what is wrong, or None.

    That is: not running, disk full, hanging (as a whole, one of its duties, or the fold), a duty that fails
    again and again, or cut off from the broker.
    """
    facts = health.facts
    if not health.running:
        return StorageError(
            f"the registry process is not running (it last said {facts.get('state', 'nothing')!r} at "
            f"{facts.get('updated_at', 'an unknown time')})",
            hint="start it: jobwire serve",
        )
    age = _age(facts, clock)
    stale = age is None or age > STALE_SECONDS
    no_room = stale and health.free_bytes is not None and health.free_bytes < _NO_ROOM
    if facts.get("stalled") or no_room:
        return StorageError("the registry process cannot write: the disk is full", hint="free disk space")
    if stale:
        return StorageError(
            f"the registry process (pid {facts.get('pid')}) has not reported since {facts.get('updated_at')}",
            hint="look at its log; restart it if it hangs",
        )
    if facts.get("state") == "starting":
        return StorageError(
            f"the registry process is starting: {facts.get('lag')} journaled entries are to be folded first",
            hint="wait for it",
        )
    return _hanging(facts) or _disconnected(facts)


def _hanging(facts: Mapping[str, Any]) -> JobwireError | None:
    for name, duty in duties_of(facts).items():
        if duty.get("stuck"):
            return StorageError(
                f"the {name} of the registry process hangs: it is {duty.get('doing')}, "
                f"and has made no progress for {duty.get('seconds')} s",
                hint=f"restart process {facts.get('pid')}: what was acknowledged is on the disk",
                duty=name,
            )
    behind = facts.get("lag_seconds")
    if isinstance(behind, int | float) and behind > BEHIND_SECONDS:
        return StorageError(
            f"the folder of the registry process has made no progress for {behind} s: it stands at offset "
            f"{facts.get('offset')}, with {facts.get('lag')} entries to go",
            hint=f"look at the log of process {facts.get('pid')}",
            duty="folder",
        )
    count, open_jobs = _number(facts, "put_off", "count"), sum(_open_jobs(facts))
    if count >= _MANY and 2 * count >= open_jobs:
        return StorageError(
            f"the registry process cannot fold {count} of {open_jobs} unfinished jobs: "
            f"{next(iter(put_off(facts).values()), 'see its log')}",
            hint="check the disk, its mount, and the owner of jobs/ and logs/",
            duty="folder",
        )
    for name, duty in duties_of(facts).items():
        if duty.get("error"):
            return StorageError(
                f"the {name} of the registry process fails again and again: {duty['error']}",
                hint=f"look at the log of process {facts.get('pid')}",
                duty=name,
            )
    return None


def _disconnected(facts: Mapping[str, Any]) -> JobwireError | None:
    if not facts.get("connected"):
        return UnreachableError(
            "the registry process has no connection to the broker", hint="check the broker; it tries again"
        )
    return None


def duties_of(facts: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return what serve.json says of each duty."""
    duties = facts.get("duties")
    if not isinstance(duties, dict):
        return {}  # of an earlier version
    return {name: duty for name, duty in duties.items() if isinstance(duty, dict)}


def put_off(facts: Mapping[str, Any]) -> Mapping[str, str]:
    """Return jobs that cannot be folded for the time being, each with why; not all where they are many."""
    found = facts.get("put_off")
    jobs = found.get("jobs") if isinstance(found, dict) else None
    return {str(job_id): str(why) for job_id, why in jobs.items()} if isinstance(jobs, dict) else {}


def warnings_of(facts: Mapping[str, Any]) -> list[str]:
    """Return what companions say that somebody misses, though nothing fails."""
    said = (one.get("warning") for one in facts.values() if isinstance(one, dict))
    return [text for text in said if isinstance(text, str)]


def _number(facts: Mapping[str, Any], name: str, key: str) -> int:
    values = facts.get(name)
    value = values.get(key) if isinstance(values, dict) else None
    return value if type(value) is int else 0


def _open_jobs(facts: Mapping[str, Any]) -> Iterator[int]:
    for status in ("pending", "running", "unreadable"):
        yield _number(facts, "jobs", status)


def _free_bytes(path: str) -> int | None:
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def _age(facts: Mapping[str, Any], clock: Clock) -> float | None:
    try:
        return abs(clock.now() - epoch(str(facts["updated_at"])))
    except (KeyError, ValueError):
        return None


def _path(home: HomeLayout) -> str:
    return os.path.join(home.home, SERVE_FILE)  # noqa: PTH118 - as everywhere in the registry
