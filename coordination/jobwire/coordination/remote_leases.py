"""The leases of an agent on another host: the tokens of its claims, in 0600 files beside its ticket."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from jobwire.coordination.agent_port import claim_next
from jobwire.coordination.agent_verbs import verb_named
from jobwire.coordination.lease_file import VARIABLE, LeaseFile, LeaseToken, lease_lost, read_token
from jobwire.coordination.message import DEFAULT_RUN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobwire.coordination.remote_agent import RemoteAgent

_CLAIMS = frozenset({"claim", "task-claim"})
_LAST = frozenset({"done", "fail", "task-complete", "task-fail"})
_HELD = frozenset({"renew-claim", "update", *_LAST})


class LeasedAgent:
    """An agent by its ticket that need not name the leases that it was granted."""

    def __init__(self, agent: RemoteAgent, *, incarnation: str = "") -> None:
        self._agent = agent
        self._incarnation = incarnation

    def call(self, verb: str, args: Mapping[str, object]) -> dict[str, object]:
        """Do a verb; a `token` is that of a lease which another process got.

        A claim of a task that names none is of the most urgent one.
        """
        if verb == "task-claim" and "task_id" not in args:
            return claim_next(self.call, self._agent.agent, args)
        if not verb_named(verb).crosses:
            return self._agent.call(verb, args)
        asked: dict[str, object] = {**args, "incarnation": self._incarnation}
        thread = _name(args)
        if verb in _HELD:
            asked["token"] = str(self._token(thread, str(args.get("token", ""))))
        said: dict[str, Any] = self._agent.call(verb, asked)
        # A task's lease is found by its thread as well: its work is said there.
        for name in dict.fromkeys((thread, str(said.get("thread_id", thread)))):
            kept = self._file(name)
            if verb in _CLAIMS and (granted := read_token(str(said["lease_token"]))) is not None:
                kept.write(granted)
            if verb in _LAST:
                kept.remove()
        return said

    def _token(self, thread: str, given: str) -> LeaseToken:
        named = read_token(given) if given else None
        if given and named is None:
            raise lease_lost(thread, f"{given!r} is no lease")
        # What is inherited from the environment is for one thread, and which that is only the store knows.
        found = named or self._file(thread).read() or read_token(os.environ.get(VARIABLE, ""))
        if found is None:
            raise lease_lost(thread, "you do not hold it")
        return found

    def _file(self, thread: str) -> LeaseFile:
        return LeaseFile(f"{self._agent.path}.leases", self._agent.agent, self._incarnation, thread)


def _name(args: Mapping[str, object]) -> str:
    """Return under which name a lease is kept: a thread's id, or a task's with its run."""
    if "task_id" in args:
        return f"{args.get('run_id', DEFAULT_RUN)}\0{args['task_id']}"
    return str(args.get("thread_id", ""))
