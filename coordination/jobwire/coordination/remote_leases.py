"""The leases of an agent on another host: the tokens of its claims, in 0600 files beside its ticket."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from jobwire.coordination.lease_file import VARIABLE, LeaseFile, LeaseToken, lease_lost, read_token

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobwire.coordination.remote_agent import RemoteAgent

_HELD = frozenset({"renew-claim", "update", "done", "fail"})
_LAST = frozenset({"done", "fail"})


class LeasedAgent:
    """An agent by its ticket that need not name the leases that it was granted."""

    def __init__(self, agent: RemoteAgent, *, incarnation: str = "") -> None:
        self._agent = agent
        self._incarnation = incarnation

    def call(self, verb: str, args: Mapping[str, object], *, token: str | None = None) -> dict[str, object]:
        """Do one of the verbs of work; `token` is that of a lease which another process got."""
        asked: dict[str, object] = {**args, "incarnation": self._incarnation}
        thread = str(args.get("thread_id", ""))
        if verb in _HELD:
            asked["token"] = str(self._token(thread, token))
        said: dict[str, Any] = self._agent.call(verb, asked)
        kept = self._file(thread)
        if verb == "claim" and (granted := read_token(str(said["lease_token"]))) is not None:
            kept.write(granted)
        if verb in _LAST:
            kept.remove()
        return said

    def _token(self, thread: str, given: str | None) -> LeaseToken:
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
