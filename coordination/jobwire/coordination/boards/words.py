"""Boards in words, from what programs are told of them: the same at home and by a ticket. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jobwire.core.clock import utc_timestamp
from jobwire.core.terminal_text import safe, table

if TYPE_CHECKING:
    from collections.abc import Sequence

Told = dict[str, Any]


def standing(board: Told) -> str:
    """Return where a board is, in a line."""
    if board["verdict"] is not None:
        return f"board {board['board_id']} decided: {board['verdict']}"
    turn = f" round {board['round']}" if board["round"] else ""
    until, missing = utc_timestamp(board["until_ms"] / 1000), ", ".join(board["missing"])
    return f"board {board['board_id']} is {board['phase']}{turn} until {until} and waits for {missing}"


def decided(found: Told) -> str:
    """Return a resolution as a page that does nothing to a terminal; where it came without one, in a line."""
    return "\n".join(map(safe, found.get("page", standing(found["board"])).splitlines()))


def talk(found: Told) -> str:
    """Return all that was said."""
    lines = [
        safe(f"{one['at']}  {one['member']} {one['turn']}: {json.dumps(one['content'], ensure_ascii=False)}")
        for one in found["messages"]
    ]
    return "\n".join(lines) or "nobody has spoken yet"


def board_table(boards: Sequence[Told]) -> str:
    """Return boards as lines of a table."""
    if not boards:
        return "there are no boards"
    names = ("board_id", "phase", "verdict", "checkpoint")
    rows = [(*(str(one[name] or "") for name in names), ", ".join(one["missing"])) for one in boards]
    return "\n".join(table([("BOARD", "PHASE", "VERDICT", "CHECKPOINT", "WAITS FOR"), *rows], None))
