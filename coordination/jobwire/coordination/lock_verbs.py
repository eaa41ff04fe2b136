"""The verbs of file locks as data.

Paths are named relative to the run's root: whoever asks from elsewhere has that folder there, under a path of
its own, and sends what `canonical` makes of it.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from jobwire.coordination.locks.changes import LOCK_SECONDS, LockRequest
from jobwire.coordination.locks.file_locks import Locks
from jobwire.coordination.locks.guards import guarded_json
from jobwire.coordination.locks.queue import LockMode, is_name
from jobwire.coordination.locks.targets import MAX_TARGET
from jobwire.coordination.message import DEFAULT_RUN, MAX_REFERENCE
from jobwire.coordination.verb_form import FLAG, NUMBER, TEXT, TEXTS, WHOLE, AgentVerb
from jobwire.core.bounds import check_line
from jobwire.core.errors import ConflictError, InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jobwire.coordination.locks.stored import FileLock, LockWait
    from jobwire.coordination.store import CoordinationStore
    from jobwire.coordination.verb_form import VerbBody

_NAMED = 5


def checked_target(target: str) -> str:
    """Return a target that was sent; raises InvalidInputError for what `canonical` never makes."""
    check_line("path", target, MAX_TARGET)
    plain = target.removeprefix("./") if is_name(target.removeprefix("./")) else target
    if is_name(target) and target != "name:":
        return target
    outside = plain.startswith(("/", "../")) or plain == ".."
    if outside or target == "name:" or posixpath.normpath(plain) != plain:
        raise InvalidInputError(
            f"{target!r:.200} is no path below the run's root", hint="relative to it, without . and .."
        )
    return target


def _paths(args: dict[str, Any]) -> list[str]:
    return [checked_target(path) for path in dict.fromkeys(args.get("paths", ()))]


def _run(args: dict[str, Any]) -> str:
    run_id: str = args.get("run_id", DEFAULT_RUN)
    check_line("run", run_id, MAX_REFERENCE)
    return run_id


def _mode(args: dict[str, Any]) -> LockMode:
    return LockMode.SHARED if args.get("shared", False) else LockMode.EXCLUSIVE


def _json(found: Sequence[FileLock]) -> dict[str, object]:
    return {"locks": [lock.to_json() for lock in found]}


def _acquire(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    """Take locks; with `wait` begin to wait where others have them, and with `waiting` look again."""
    locks, asked = Locks(store), _wanted(agent, args)
    wait = _waiting(locks, agent, args)
    if wait is None:
        found = locks.begin(asked, waits=args.get("wait", False))
    else:
        mine = asked._replace(targets=wait.wanted.targets, mode=wait.wanted.mode)
        found = locks.look_again(mine, wait) or wait
    if isinstance(found, list):
        return {"woke": True, **_json(found), "token": found[0].token}
    return {"woke": False, "waiting": found.wait_id, **_json([])}


def _leave(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    locks = Locks(store)
    wait = _waiting(locks, agent, args)
    if wait is not None:
        locks.give_up(wait)
    return {"woke": False}


def _waiting(locks: Locks, agent: str, args: dict[str, Any]) -> LockWait | None:
    """Return the agent's own place in the queue, if it is there still."""
    if "waiting" not in args:
        return None
    state = locks.state(_run(args))
    return next((one for one in state.waits if (one.wait_id, one.agent_id) == (args["waiting"], agent)), None)


def _wanted(agent: str, args: dict[str, Any]) -> LockRequest:
    return LockRequest(
        agent,
        tuple(_paths(args)),
        run_id=_run(args),
        mode=_mode(args),
        seconds=float(args.get("ttl", LOCK_SECONDS)),
        incarnation=str(args.get("incarnation", "")),
        job_id=str(args.get("job_id", "")),
    )


def _held(change: Callable[..., list[FileLock]]) -> VerbBody:
    """Return what extends the agent's locks, or gives them back."""

    def do(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
        return _json(change(Locks(store), agent, _paths(args), run_id=_run(args), token=args.get("token")))

    return do


def _check(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    found = Locks(store).conflicts(agent, _paths(args), run_id=_run(args), mode=_mode(args))
    if found:
        names = ", ".join(f"{lock.target} ({lock.agent_id})" for lock in found[:_NAMED])
        raise ConflictError(
            f"held by others: {names}" + (f" and {len(found) - _NAMED} more" if found[_NAMED:] else ""),
            hint="wait with `jobwire lock wait PATH`, or talk to the holder",
            code="locked",
            holder=found[0].agent_id,
            path=found[0].target,
            response=_json(found),
        )
    return _json(found)


def _free(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    """Look once whether nobody else holds them: whoever is elsewhere sleeps there."""
    found = Locks(store).conflicts(agent, _paths(args), run_id=_run(args))
    return {"woke": not found, **_json(found)}


def _list(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    del agent
    state = Locks(store).state(args.get("run_id"))
    locks = guarded_json(store.home, state.locks)
    return {"locks": locks, "waiting": [wait.to_json() for wait in state.waits]}


def _deadlocks(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    del agent
    return {"deadlocks": Locks(store).deadlocks(args.get("run_id"))}


def _break(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    target = checked_target(args["path"])
    if args.get("confirm", False):
        return {**_json(Locks(store).confirm_break(agent, target, run_id=_run(args))), "asked": False}
    asked = Locks(store).ask_to_break(agent, target, run_id=_run(args), reason=args.get("reason", ""))
    return {**_json(asked), "asked": True}


_ON = {"paths": TEXTS, "run_id": TEXT}
_WANTED = {**_ON, "shared": FLAG, "ttl": NUMBER, "incarnation": TEXT, "job_id": TEXT}
_HELD = {**_ON, "token": WHOLE}
# Nobody wants a lock later that it cannot have now: none of them is kept, but for giving one back.
LOCK_VERBS: Mapping[str, AgentVerb] = {
    "lock-acquire": AgentVerb(
        {**_WANTED, "wait": FLAG, "waiting": WHOLE}, _acquire, ("paths",), changes=True
    ),
    "lock-leave": AgentVerb({"waiting": WHOLE, "run_id": TEXT}, _leave, ("waiting",), changes=True),
    "lock-renew": AgentVerb(_HELD, _held(Locks.renew), changes=True),
    "lock-release": AgentVerb(_HELD, _held(Locks.release), changes=True, keeps=True),
    "lock-check": AgentVerb({**_ON, "shared": FLAG}, _check, ("paths",)),
    "lock-free": AgentVerb(_ON, _free, ("paths",)),
    "lock-list": AgentVerb({"run_id": TEXT}, _list, public=True),
    "lock-deadlocks": AgentVerb({"run_id": TEXT}, _deadlocks, public=True),
    "lock-break": AgentVerb(
        {"path": TEXT, "run_id": TEXT, "reason": TEXT, "confirm": FLAG}, _break, ("path",), changes=True
    ),
}
