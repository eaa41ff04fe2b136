"""An agent on another host, as a process of its own: gives work, or does it, by its ticket.

talker.py lead|worker TICKET COUNT

Started again after a kill it goes on where it was: what it sends has ids of its own, and what it claimed it
claims again. Prints one line for each piece of work.
"""

import contextlib
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any

from jobwire.coordination.remote_agent import RemoteAgent
from jobwire.coordination.remote_leases import LeasedAgent
from jobwire.core.errors import ConflictError, JobwireError, TransportError

LEAD, WORKER = "storm-lead", "storm-worker"
_PAUSE_SECONDS = 0.2
_ANSWER_SECONDS = 5.0
_OPEN = ["pending", "claimed", "in_progress"]


class Talker:
    """Speaks until it was heard."""

    def __init__(self, ticket: str, count: int) -> None:
        self._agent = RemoteAgent(ticket)
        self._leased = LeasedAgent(self._agent)
        self._count = count

    def lead(self) -> None:
        """Give all work, each piece under its own id."""
        for number in range(self._count):
            name = f"task-{number}"
            self._send({"to": [WORKER], "kind": "task", "summary": name, "id": name})
            _say(name)
        self._flush()

    def work(self) -> None:
        """Do all work: claim, say how it goes, hand it in."""
        while len(self._threads(["done"])) < self._count:
            for thread in self._threads(_OPEN):
                # Said before a kill, and done by now.
                with contextlib.suppress(ConflictError):
                    self._do(thread)
                    _say(thread)
            time.sleep(_PAUSE_SECONDS)
        self._flush()

    def _threads(self, statuses: list[str]) -> list[str]:
        found = self._heard("fetch", {"statuses": statuses, "limit": 1000})
        return [one["thread_id"] for one in found["threads"]]

    def _do(self, thread: str) -> None:
        self._kept("claim", {"thread_id": thread})
        self._kept("update", {"thread_id": thread, "summary": "half", "id": f"half-{thread}"})
        self._kept("done", {"thread_id": thread, "summary": "done", "id": f"done-{thread}"})

    def _send(self, args: Mapping[str, object]) -> None:
        # What is kept goes before the next request.
        with contextlib.suppress(TransportError):
            self._agent.call("send", args, seconds=_ANSWER_SECONDS)

    def _kept(self, verb: str, args: Mapping[str, object]) -> None:
        while True:
            try:
                self._leased.call(verb, args)
            except TransportError as error:
                if error.facts.get("kept"):
                    return
                time.sleep(_PAUSE_SECONDS)
            else:
                return

    def _heard(self, verb: str, args: Mapping[str, object]) -> dict[str, Any]:
        while True:
            try:
                return self._agent.call(verb, args, seconds=_ANSWER_SECONDS)
            except TransportError:
                time.sleep(_PAUSE_SECONDS)

    def _flush(self) -> None:
        while True:
            with contextlib.suppress(JobwireError):
                if self._agent.flush() == 0:
                    return
            time.sleep(_PAUSE_SECONDS)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Talk to the end."""
    logging.basicConfig(level=logging.WARNING)
    role, ticket, count = sys.argv[1:]
    talker = Talker(ticket, int(count))
    if role == "lead":
        talker.lead()
    else:
        talker.work()
    return 0


if __name__ == "__main__":
    sys.exit(main())
