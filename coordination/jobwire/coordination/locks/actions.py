"""What the verbs of `jobwire lock` do that wait, run or print; the others are those of agents."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobwire.coordination.command import incarnation, split_command, who_am_i
from jobwire.coordination.locks.changes import LockRequest
from jobwire.coordination.locks.file_locks import Locks
from jobwire.coordination.locks.queue import LockMode
from jobwire.coordination.locks.targets import targets_of
from jobwire.coordination.locks.words import held
from jobwire.coordination.places import open_store
from jobwire.core.errors import NoWorkError
from jobwire.core.told import say

if TYPE_CHECKING:
    from argparse import Namespace

    from jobwire.coordination.store import CoordinationStore

# git separates names by NUL: they may hold anything else.
HOOK = """\
#!/bin/sh
# Refuses to commit files that another agent holds: `jobwire lock list` shows them.
set -eu
changed=$(git diff --cached --name-only --no-renames | head -c 1)
[ -n "$changed" ] || exit 0
cd "$(git rev-parse --show-toplevel)"
git diff --cached --name-only --no-renames -z | xargs -0 jobwire lock check --agent "${JOBWIRE_AGENT:-git}" --
"""


def lock_acquire(args: Namespace) -> int:
    """Take locks."""
    store = open_store(args)
    granted = Locks(store).acquire(_request(args, store), wait_seconds=args.wait)
    locks = [lock.to_json() for lock in granted]
    body = {"locks": locks, "event_id": store.latest_event(), "token": granted[0].token}
    say(args, body, lambda: held(body))
    return 0


def lock_wait(args: Namespace) -> int:
    """Wait until the paths are free."""
    store = open_store(args)
    found = Locks(store).wait_until_free(
        who_am_i(args), _targets(args, store), run_id=args.run_id, seconds=args.timeout_seconds
    )
    if found:
        raise NoWorkError(
            f"{found[0].target} is still held by {found[0].agent_id}",
            hint="`jobwire lock acquire PATH --wait S` waits in the queue",
            code="timeout",
            response={"woke": False, "event_id": store.latest_event()},
        )
    say(args, {"woke": True, "locks": [], "event_id": store.latest_event()}, "free")
    return 0


def lock_run(args: Namespace) -> int:
    """Run a command while holding locks; its exit code is ours."""
    from jobwire.coordination.locks.held_lock import run_while_held  # noqa: PLC0415 - brings processes

    store = open_store(args)
    args.paths, command = split_command(args.words, "jobwire lock run [--wait S] PATH... -- COMMAND")
    locks, asked = Locks(store), _request(args, store)
    return run_while_held(locks, asked, command, wait_seconds=args.wait)


def lock_hook(args: Namespace) -> int:
    """Print the hook."""
    say(args, {"hook": HOOK}, HOOK.rstrip("\n"))
    return 0


def _request(args: Namespace, store: CoordinationStore) -> LockRequest:
    return LockRequest(
        who_am_i(args),
        tuple(_targets(args, store)),
        run_id=args.run_id,
        mode=LockMode.SHARED if args.shared else LockMode.EXCLUSIVE,
        seconds=args.ttl,
        incarnation=incarnation(),
        job_id=args.job or os.environ.get("JOBWIRE_JOB", ""),
    )


def _targets(args: Namespace, store: CoordinationStore) -> list[str]:
    return targets_of(store, args.paths, run_id=args.run_id, root=args.root)
