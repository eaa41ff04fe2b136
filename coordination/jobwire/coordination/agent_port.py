"""The port of an agent: what it does, wherever it runs; and the store on this disk behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from jobwire.coordination.agent_verbs import call, following
from jobwire.coordination.message import DEFAULT_RUN
from jobwire.coordination.verb_form import MOST
from jobwire.core.errors import ConflictError
from jobwire.core.topics import check_agent
from jobwire.storage.wake import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobwire.coordination.store import CoordinationStore

_LOOKED_AT = 20


class AgentPort(Protocol):
    """What an agent does, wherever it runs: the store on this disk, or a ticket."""

    def call(self, verb: str, args: Mapping[str, object]) -> dict[str, object]:
        """Do one thing, and return what `--json` prints. Raises JobwireError."""
        ...

    def wait(self, verb: str, args: Mapping[str, object], seconds: float) -> dict[str, object]:
        """Return what `wait-reply` or `watch` finds; `woke` is False where nothing came within `seconds`."""
        ...


def claim_next(
    call: Callable[[str, dict[str, object]], dict[str, object]], agent: str, args: Mapping[str, object]
) -> dict[str, object]:
    """Claim the most urgent task that is ready for an agent; raises NoWorkError (no_match).

    Which one it is, is asked first: a claim that is asked for again is then of the same task.
    """
    run_id = args.get("run_id", DEFAULT_RUN)
    passed: set[str] = set()
    while True:
        found: Any = call("task-next", {"run_id": run_id, "limit": min(_LOOKED_AT + len(passed), MOST)})
        ready = [task for task in found["task_ids"] if task not in passed]
        if not ready:
            break
        for task in ready:
            try:
                return call("task-claim", {**args, "task_id": task})
            except ConflictError:
                passed.add(task)  # others may be quicker: then it is the next one's turn
    from jobwire.coordination.tasks.states import no_task  # noqa: PLC0415 - who asks for locks asks for no task

    raise no_task(str(run_id), agent)


class LocalAgent:
    """An agent with the store on its disk."""

    def __init__(self, store: CoordinationStore, agent: str) -> None:
        self._store = store
        self.agent = check_agent(agent)

    def call(self, verb: str, args: Mapping[str, object]) -> dict[str, object]:
        """Do it in the store."""
        return call(self._store, self.agent, verb, args)

    def wait(self, verb: str, args: Mapping[str, object], seconds: float) -> dict[str, object]:
        """Look, then sleep until somebody commits."""
        asked = dict(args)
        found: dict[str, object] = {"woke": False}

        def look() -> dict[str, object] | None:
            nonlocal asked, found
            found = self.call(verb, asked)
            asked = following(asked, found)
            return found if found["woke"] else None

        return wait_until(look, home=self._store.home, names=["events"], seconds=seconds) or found
