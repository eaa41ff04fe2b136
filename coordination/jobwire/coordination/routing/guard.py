"""Who may ask for what by a directive: a table of roles and intents, and its limits. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.message import split_words
from jobwire.core.setting_tables import DIRECTIVES_ALLOWED, DIRECTIVES_OPEN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

ANY = "*"


class Guard(NamedTuple):
    """The table, by role or kind of agent (`*`: any), and how many tasks of directives a run has open."""

    allowed: tuple[tuple[str, frozenset[str]], ...]
    most_open: int = DIRECTIVES_OPEN

    def allows(self, roles: Collection[str], intent: str) -> bool:
        """Tell whether an agent with these roles may ask for the intent."""
        return any(
            role in {ANY, *roles} and (intent in intents or ANY in intents) for role, intents in self.allowed
        )


def guard_of(rows: Iterable[str], most_open: int = DIRECTIVES_OPEN) -> Guard:
    """Return the table of rows like `lead: *` and `worker: review, test`."""
    table = []
    for row in rows:
        role, _, intents = row.partition(":")
        table.append((role.strip(), frozenset(split_words(intents.replace(" ", ",")))))
    return Guard(tuple(table), most_open)


DEFAULT_GUARD = guard_of(DIRECTIVES_ALLOWED)
# Nobody may: where the user's settings cannot be read, nothing is granted.
CLOSED_GUARD = Guard(())
