"""The agents whose hooks are known: how each is read and answered, and what is known of each. Pure."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobwire.hooks.signs import Answered, Said


class HookKind(NamedTuple):
    """One agent's hooks.

    `waits`: its pane stays usable while a hook waits for a person. `wakes`: one behind its turn can wake it.
    """

    name: str
    waits: bool
    wakes: bool
    read: Callable[[Mapping[str, object]], Said | None]
    write: Callable[[Said, Answered], dict[str, object] | None]


# Name -> whether its permission hook may wait (docs/agent-programs.md says why).
NAMES = {"claude": True, "codex": False, "opencode": True}
_WOKEN = frozenset({"claude", "opencode"})


def kind_of(name: str) -> HookKind:
    """Return the agent's hooks; of the others nothing is loaded. Raises InvalidInputError."""
    if name not in NAMES:
        raise InvalidInputError(
            f"no agent {name[:40]!r} is known by its hooks", hint=f"one of: {', '.join(NAMES)}"
        )
    module = import_module(f"jobwire.hooks.{name}")
    return HookKind(name, NAMES[name], name in _WOKEN, module.read, module.write)
