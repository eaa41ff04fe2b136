"""An agent that has nothing to do is told of a message by itself, before anything is pasted into its pane.

A hook waits behind the turn and ends with the message, which wakes the agent: what it is told then is done
at its next hook. It waits no more once the agent was given a prompt, or waits behind a later turn.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from jobwire.hooks.desk import has_store
from jobwire.hooks.handing import waking_messages
from jobwire.hooks.signs import Said, Sign
from jobwire.hooks.turn_end import AfterTurn, judge_end
from jobwire.storage.durable import replace_atomically
from jobwire.storage.files import SystemFiles
from jobwire.storage.wake import wait_until

if TYPE_CHECKING:
    from jobwire.core.clock import Clock
    from jobwire.hooks.desk import AgentPlace, Desk

# Below the time that the launch gives our hooks, as `asking.WAIT_SECONDS`.
WAIT_SECONDS = 86_000.0
_MOST = 100


def is_idle(desk: Desk | None, said: Said) -> bool:
    """Tell whether nothing goes on behind this turn: it is over, and the agent is asked nothing."""
    if said.sign is not Sign.TURN_END or said.within:
        return False
    if desk is None or desk.voice.record().terminal:
        return True
    return not desk.ends_with_its_turn and judge_end(said, desk.policy).ending is not AfterTurn.ASKED


def wait_for_messages(place: AgentPlace, said: Said, clock: Clock) -> str:
    """Wait for a message, and return it; "" once the agent is at work again, or gone."""
    own = f"{os.getpid()} {clock.now()}".encode()
    replace_atomically([(place.mark, own)], files=SystemFiles())
    parent = os.getppid()

    def look() -> str | None:
        if os.getppid() != parent or _read(place.mark) != own:
            return ""
        if not has_store(place.home):
            return None
        return waking_messages(place.home, place.agent, said) or None

    names = [f"agent:{place.agent}"]
    return wait_until(look, home=place.home, names=names, seconds=WAIT_SECONDS, clock=clock) or ""


def end_waiting(place: AgentPlace) -> None:
    """Let nobody wait behind the agent's last turn any more: it is at work."""
    with suppress(OSError):
        os.unlink(place.mark)  # noqa: PTH108 - start-up


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - start-up
            return file.read(_MOST)
    except OSError:
        return b""
