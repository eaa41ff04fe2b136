"""`serve.json`: how the registry process is doing, for healthchecks and for people.

Its presence also tells publishers on this disk that a registry process looks after the home: they
keep their events until it has confirmed them, also while it is down. It stays after a clean end.
"""

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from jobwire.core.clock import Clock, utc_timestamp
from jobwire.core.errors import JobwireError, NotFoundError, StorageError, UnreachableError
from jobwire.registry import locks
from jobwire.registry.deadlines import epoch
from jobwire.registry.layout import HomeLayout
from jobwire.storage.durable import replace_atomically, replace_durably
from jobwire.storage.failures import storage_failure

SERVE_FILE = "serve.json"
SERVE_LOCK = "serve"
# Written every second; a process that has not managed it for so long hangs.
STALE_SECONDS = 15.0


class Health(NamedTuple):
    """What serve.json says, and whether its process runs (it holds the lock)."""

    facts: Mapping[str, Any]
    running: bool


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
            f"no registry process works on {home.home}", hint="start one: jobwire registry serve"
        ) from None
    except OSError as error:
        raise storage_failure("read", path, error) from error
    except ValueError:
        facts = None
    return Health(facts if isinstance(facts, dict) else {}, is_running(home))


def is_running(home: HomeLayout) -> bool:
    """Tell whether a registry process works on this home now."""
    return locks.is_held(home.lock_path(SERVE_LOCK))


def verdict(health: Health, clock: Clock) -> JobwireError | None:
    """Return what is wrong, or None: not running, hanging, disk full, or cut off from the broker."""
    facts = health.facts
    if not health.running:
        return StorageError(
            f"the registry process is not running (it last said {facts.get('state', 'nothing')!r} at "
            f"{facts.get('updated_at', 'an unknown time')})",
            hint="start it: jobwire registry serve",
        )
    age = _age(facts, clock)
    if age is None or age > STALE_SECONDS:
        return StorageError(
            f"the registry process (pid {facts.get('pid')}) has not reported since {facts.get('updated_at')}",
            hint="look at its log; restart it if it hangs",
        )
    if facts.get("stalled"):
        return StorageError("the registry process cannot write: the disk is full", hint="free disk space")
    if not facts.get("connected"):
        return UnreachableError(
            "the registry process has no connection to the broker", hint="check the broker; it tries again"
        )
    return None


def _age(facts: Mapping[str, Any], clock: Clock) -> float | None:
    try:
        return abs(clock.now() - epoch(str(facts["updated_at"])))
    except (KeyError, ValueError):
        return None


def _path(home: HomeLayout) -> str:
    return os.path.join(home.home, SERVE_FILE)  # noqa: PTH118 - as everywhere in the registry
