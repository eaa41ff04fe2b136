"""What waits behind an agent's turn: a person's verdict, while the agent's pane stays free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.hooks.asking import ask_verdict
from jobwire.hooks.signs import Said, Sign
from jobwire.hooks.turn_end import AfterTurn, judge_end

if TYPE_CHECKING:
    from jobwire.hooks.desk import Desk


def wait_behind(desk: Desk, said: Said) -> str:
    """Wait for what the end of a turn needs, and return what the agent is woken with; "" for nothing.

    The hook of the same turn that does not wait has said what there was to say.
    """
    if said.sign is not Sign.TURN_END or said.within or desk.ends_with_its_turn:
        return ""
    if judge_end(said, desk.policy).ending is not AfterTurn.PERSON or desk.voice.record().terminal:
        return ""
    return ask_verdict(desk, said).go_on
