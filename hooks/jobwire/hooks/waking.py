"""What waits behind an agent's turn, its pane free meanwhile: for a person, or for the model's service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.core.clock import SystemClock
from jobwire.hooks.asking import ask_after_error, ask_verdict
from jobwire.hooks.idle import is_idle, wait_for_messages
from jobwire.hooks.signs import Said, Sign
from jobwire.hooks.turn_end import AfterTurn, judge_end

if TYPE_CHECKING:
    from jobwire.hooks.desk import AgentPlace, Desk


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
