"""`jobwire mcp --ticket FILE`: the tools of an agent on another host, each a request over MQTT."""

from pathlib import Path
from typing import Any

from jobwire.cli.mcp_server import AgentTools, no_reply
from jobwire.coordination.command import incarnation
from jobwire.coordination.remote_agent import RemoteAgent
from jobwire.coordination.remote_leases import LeasedAgent
from jobwire.coordination.remote_requests import targets
from jobwire.core.bounds import check_seconds
from jobwire.core.errors import InvalidInputError
from jobwire.core.override import override

Said = dict[str, Any]


class TicketTools(AgentTools):
    """The tools of the agent of a ticket; signatures and docstrings are what the agent is shown."""

    # Each look is a request.
    look_seconds = 10.0

    def __init__(self, ticket: str, named: str | None) -> None:
        self._remote = RemoteAgent(Path(ticket))
        if named and named != self._remote.agent:
            raise InvalidInputError(
                f"this is the ticket of {self._remote.agent}, not of {named}", code="forbidden"
            )
        super().__init__("", self._remote.agent)
        self._leased = LeasedAgent(self._remote, incarnation=incarnation())

    @override
    def all(self) -> list[Any]:
        """Return the tools: a job of its own is reported by a job's ticket, and a plan is made at home."""
        return [tool for tool in super().all() if tool.__name__ not in {"report", "task_add"}]

    @override
    def close(self) -> None:
        """End all waits, and the connection."""
        super().close()
        self._remote.close()

    @override
    def ask(  # type: ignore[override]  # a thread is what is known here
        self, text: str, thread: str, choices: list[str] | None = None, timeout_seconds: float = 600.0
    ) -> Said:
        """Ask a person, or whoever gave you the work, and wait for the answer. `thread` is what you claimed.
        Nobody answers in time: error.code timeout; wait_reply waits again.
        """  # noqa: D205 - shown to agents as it is
        check_seconds("timeout_seconds", timeout_seconds)
        words = {"status": "blocked", "summary": text, "choices": choices or []}
        asked = self.leased("update", {"thread_id": thread, **words})
        found = self._hear(thread, timeout_seconds, after=asked["event_id"], kinds=["answer"])
        message: Said = found["message"]
        return {"answer": message["body"] or message["summary"], "by": message["from_agent"], **found}

    @override
    def wait_reply(self, thread: str, timeout_seconds: float = 600.0) -> Said:
        """Wait for what others say in a thread after your last question there."""
        return self._hear(thread, timeout_seconds)

    @override
    def search(self, words: str, limit: int = 20) -> Said:
        """Find messages that hold all the words, newest first; `word*` finds any ending."""
        return self.call("search", words=words, limit=limit)

    @override
    def call(self, verb: str, **args: object) -> Said:
        """See `SharedTools`."""
        return self._remote.call(verb, args)

    @override
    def look(self, verb: str, **args: object) -> Said:
        """See `TaskTools`: what is the agent's, or anybody's, and for a lead all."""
        return self.call(verb, **args)

    @override
    def leased(self, verb: str, args: Said) -> Said:
        """See `TaskTools`: the lease lies beside the ticket."""
        return self._leased.call(verb, args)

    @override
    def wait(self, verb: str, args: Said, seconds: float) -> Said:
        """See `SharedTools`."""
        return self._remote.wait(verb, args, seconds)

    @override
    def targets(self, paths: list[str]) -> list[str]:
        """See `SharedTools`: relative to the repository around us."""
        return targets(paths, None)

    def _hear(self, thread: str, seconds: float, **more: object) -> Said:
        """Return what others say in a thread. Raises NoWorkError (timeout)."""
        found = self.patiently("wait-reply", {"thread_id": thread, **more}, seconds)
        if not found["woke"]:
            raise no_reply(thread, seconds)
        return found
