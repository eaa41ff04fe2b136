"""What waits behind an agent's turn, its pane free: for a person, the model's service, or a message.

An agent that has nothing to do is told of a message before anything is pasted into its pane: the hook that
waits ends with it, which wakes the agent, and what it is told then is done at its next hook. Nobody waits any
more once the agent was given a prompt, or waits behind a later turn.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobwire.core.clock import SystemClock
from jobwire.hooks.asking import WAIT_SECONDS, ask_after_error, ask_verdict
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

_MOST = 100


def wait_behind(desk: Desk | None, place: AgentPlace | None, said: Said) -> str:
    """Wait for what the end of a turn needs, then for messages; return what the agent is woken with, or "".

    The hook of the same turn that does not wait has said what there was to say.
    """
    told = _wait_for_person(desk, said) if desk is not None else ""
    if told or place is None or not is_idle(desk, said):
        return told
    return wait_for_messages(place, said, SystemClock())


def _wait_for_person(desk: Desk, said: Said) -> str:
    if said.within or desk.ends_with_its_turn or desk.voice.record().terminal:
        return ""
    if said.sign is Sign.FAILED:
        return ask_after_error(desk, said).go_on
    if said.sign is Sign.TURN_END and judge_end(said, desk.policy).ending is AfterTurn.PERSON:
        return ask_verdict(desk, said).go_on
    return ""


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


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - start-up
            return file.read(_MOST)
    except OSError:
        return b""
