"""What the verbs of `jobwire lock` do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobwire.coordination.command import incarnation, say, split_command, who_am_i
from jobwire.coordination.locks.changes import LockRequest
from jobwire.coordination.locks.file_locks import Locks
from jobwire.coordination.locks.guards import guarded_json
from jobwire.coordination.locks.queue import LockMode
from jobwire.coordination.locks.roots import targets_of
from jobwire.coordination.places import open_store
from jobwire.core.errors import ConflictError, InvalidInputError, NoWorkError
from jobwire.core.terminal_text import table

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping, Sequence

    from jobwire.coordination.locks.stored import FileLock
    from jobwire.coordination.store import CoordinationStore

_NAMED = 5
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
    say(args, {**_body(store, granted), "token": granted[0].token}, _kept(granted))
    return 0


def lock_renew(args: Namespace) -> int:
    """Extend locks."""
    return _change(args, Locks.renew, _kept)


def lock_release(args: Namespace) -> int:
    """Give locks back."""
    return _change(args, Locks.release, lambda found: _ended("released", found))


def lock_list(args: Namespace) -> int:
    """List locks and waiters."""
    store = open_store(args)
    state = Locks(store).state(args.run_id)
    listed = guarded_json(store.home, state.locks)
    body = {
        "locks": listed,
        "waiting": [wait.to_json() for wait in state.waits],
        "event_id": store.latest_event(),
    }
    rows = [
        (*(str(one[name]) for name in ("path", "mode", "agent")), "holds", *map(str, _rest(one)))
        for one in listed
    ] + [
        (" ".join(wait.wanted.targets), wait.wanted.mode.value, wait.agent_id, "waits", "", "", wait.run_id)
        for wait in state.waits
    ]
    header = ("PATH", "MODE", "AGENT", "STATE", "GUARD", "UNTIL", "RUN")
    lines = table([header, *rows], None) if rows else ["nobody holds anything"]
    say(args, body, "\n".join([*lines, *(_to_confirm(lock) for lock in state.locks if lock.break_by)]))
    return 0


def _to_confirm(lock: FileLock) -> str:
    return (
        f"{lock.break_by} asks to break {lock.agent_id}'s lock on {lock.target} ({lock.break_reason}): "
        "another agent confirms with `jobwire lock break PATH --confirm`"
    )


def _rest(lock: Mapping[str, object]) -> tuple[object, ...]:
    return lock["guard"], lock["expires_at"], lock["run_id"]


def lock_check(args: Namespace) -> int:
    """Fail where somebody else holds one of the paths."""
    store = open_store(args)
    agent = who_am_i(args)
    mode = LockMode.SHARED if args.shared else LockMode.EXCLUSIVE
    found = Locks(store).conflicts(agent, _targets(args, store), run_id=args.run_id, mode=mode)
    _refuse(found)
    say(args, _body(store, found), "")
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
            response={"woke": False},
        )
    say(args, {"woke": True, **_body(store, found)}, "free")
    return 0


def lock_break(args: Namespace) -> int:
    """Ask for the end of a lock, or confirm it."""
    store = open_store(args)
    agent, (target,) = who_am_i(args), _canonical(args, store, [args.path])
    locks = Locks(store)
    if bool(args.reason) == args.confirm:
        raise InvalidInputError("ask or confirm?", hint="--reason TEXT, or --confirm", code="invalid_input")
    if args.confirm:
        found = locks.confirm_break(agent, target, run_id=args.run_id)
        say(args, _body(store, found), _ended("lost", found))
    else:
        found = locks.ask_to_break(agent, target, run_id=args.run_id, reason=args.reason)
        say(
            args,
            _body(store, found),
            f"asked: another agent confirms with `jobwire lock break {target} --confirm`",
        )
    return 0


def lock_run(args: Namespace) -> int:
    """Run a command while holding locks; its exit code is ours."""
    from jobwire.coordination.locks.guarded_command import run_while_held  # noqa: PLC0415 - brings processes

    store = open_store(args)
    args.paths, command = split_command(args.words, "jobwire lock run [--wait S] PATH... -- COMMAND")
    locks, asked = Locks(store), _request(args, store)
    return run_while_held(locks, asked, command, wait_seconds=args.wait)


def lock_hook(args: Namespace) -> int:
    """Print the hook."""
    say(args, {"hook": HOOK}, HOOK.rstrip("\n"))
    return 0


def lock_deadlocks(args: Namespace) -> int:
    """List circles of waiters; 20 where there is one."""
    store = open_store(args)
    found = Locks(store).deadlocks(args.run_id)
    body = {"deadlocks": found, "event_id": store.latest_event()}
    if found:
        raise ConflictError(
            "; ".join(" -> ".join([*circle, circle[0]]) for circle in found),
            hint="one of them must release what it holds, or be stopped",
            code="deadlock",
            response=body,
        )
    say(args, body, "none")
    return 0


def _change(
    args: Namespace, change: Callable[..., list[FileLock]], told: Callable[[list[FileLock]], str]
) -> int:
    store = open_store(args)
    if bool(args.paths) == args.all:
        raise InvalidInputError("which locks?", hint="name paths, or --all", code="invalid_input")
    found = change(Locks(store), who_am_i(args), _targets(args, store), run_id=args.run_id, token=args.token)
    say(args, _body(store, found), told(found))
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
    return _canonical(args, store, args.paths)


def _canonical(args: Namespace, store: CoordinationStore, paths: Sequence[str]) -> list[str]:
    return targets_of(store, paths, run_id=args.run_id, root=args.root)


def _refuse(found: Sequence[FileLock]) -> None:
    if found:
        names = ", ".join(f"{lock.target} ({lock.agent_id})" for lock in found[:_NAMED])
        raise ConflictError(
            f"held by others: {names}" + (f" and {len(found) - _NAMED} more" if found[_NAMED:] else ""),
            hint="wait with `jobwire lock wait PATH`, or talk to the holder",
            code="locked",
            response={"locks": [lock.to_json() for lock in found]},
        )


def _body(store: CoordinationStore, found: Sequence[FileLock]) -> dict[str, object]:
    return {"locks": [lock.to_json() for lock in found], "event_id": store.latest_event()}


def _kept(found: Sequence[FileLock]) -> str:
    lines = [
        f"{lock.agent_id} holds {lock.target} until {lock.to_json()['expires_at']} (token {lock.token})"
        for lock in found
    ]
    return "\n".join(lines) or "nothing"


def _ended(word: str, found: Sequence[FileLock]) -> str:
    return "\n".join(f"{lock.agent_id} {word} {lock.target}" for lock in found) or "nothing"
