"""What is known of agents: how each gets its instructions, ends in good order, and comes back. Pure.

One line each, in the form in which a user adds own ones (`agents` in [sessions] of the user's own settings):
`NAME | DELIVERY | COMMAND | QUIT | RESUME | INTERRUPT`; what is empty at the end may be left out.
"""

import os.path
import re
import shlex
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from jobwire.core.errors import ConfigError, InvalidInputError

CONVERSATION = "{conversation}"
FILE = "{file}"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}")
# tmux(1), send-keys: C-c, M-x, Escape, Enter.
_KEY = re.compile(r"(C-|M-).|Escape|Enter")
_PARTS = 6


class InstructionsBy(StrEnum):
    """How instructions reach an agent. With the first three it is started once a job."""

    STDIN = "stdin"
    ARGUMENT = "argument"
    FILE = "file"
    # It lives on, and takes text of several lines that is pasted in brackets.
    PASTE = "paste"
    # It lives on, and takes one line, which names the file with the instructions.
    LINE = "line"
    # Not at all: a shell.
    NONE = "none"


class KnownAgent(NamedTuple):
    """One line of the table. `quit`: keys by tmux's names, or a text that Enter follows.

    `interrupt`: the key that ends its turn, and leaves it waiting for the next one; behind it the key that
    empties its prompt, where it puts back there what it was told.
    """

    name: str
    delivery: InstructionsBy
    command: str
    quit: str = ""
    resume: str = ""
    interrupt: str = ""

    @property
    def lives_on(self) -> bool:
        """Tell whether one process of it does one job after another."""
        return self.delivery in {InstructionsBy.PASTE, InstructionsBy.LINE, InstructionsBy.NONE}

    @property
    def interrupt_keys(self) -> tuple[str, str]:
        """Return the key that interrupts, and the one that empties the prompt then; "" for none."""
        first, clears = [*self.interrupt.split(), "", ""][:2]
        return first, clears

    @property
    def quit_keys(self) -> list[str]:
        """Return the keys that end it; none where a text does, or nothing is known."""
        words = self.quit.split()
        return words if words and all(map(_KEY.fullmatch, words)) else []

    def resumed(self, conversation: str) -> list[str]:
        """Return the command that goes on with a conversation; empty where there is none for it."""
        if not self.resume or (CONVERSATION in self.resume and not conversation):
            return []
        return [word.replace(CONVERSATION, conversation) for word in shlex.split(self.resume)]


# What agents of their makers take (their own documentation and --help, 2026).
TABLE = """\
claude | paste | claude | /exit | claude --resume {conversation} | Escape C-c
claude-print | argument | claude -p | | claude -p --resume {conversation}
codex | paste | codex | /quit | codex resume {conversation} | Escape
codex-exec | stdin | codex exec - | |
opencode | paste | opencode | /exit | opencode --session {conversation} | Escape
gemini | paste | gemini | /quit | | Escape
aider | line | aider | /exit | aider --restore-chat-history | C-c
shell | none | | C-d | | C-c
"""


def read_line(line: str) -> KnownAgent:
    """Return the agent of a line; raises ConfigError saying what of it cannot be used."""
    parts = [part.strip() for part in line.split("|")]
    name, delivery, command, keys, resume, interrupt = [*parts, *[""] * _PARTS][:_PARTS]
    if len(parts) > _PARTS or not _NAME.fullmatch(name) or delivery not in set(InstructionsBy):
        raise ConfigError(
            f"not the line of an agent: {line[:80]!r}",
            hint=f"NAME | {' or '.join(InstructionsBy)} | COMMAND | QUIT | RESUME | INTERRUPT",
        )
    keys_then = interrupt.split()
    if len(keys_then) > 2 or not all(map(_KEY.fullmatch, keys_then)):  # noqa: PLR2004 - said in the hint
        raise ConfigError(
            f"not a key: {interrupt[:80]!r}",
            hint="C-c, M-x, Escape or Enter; a second one behind it",
        )
    for what, words in (("command", command), ("resume command", resume)):
        try:
            shlex.split(words)
        except ValueError as error:
            raise ConfigError(f"the {what} of agent {name} cannot be read: {error}") from error
    return KnownAgent(name, InstructionsBy(delivery), command, keys, resume, interrupt)


def known(own: Iterable[str] = ()) -> dict[str, KnownAgent]:
    """Return the table by name; the user's own lines go before."""
    lines = [*TABLE.splitlines(), *own]
    return {agent.name: agent for agent in map(read_line, lines)}


def choose(
    agents: dict[str, KnownAgent],
    name: str | None,
    command: Sequence[str],
    *,
    delivery: str | None,
    otherwise: InstructionsBy,
) -> tuple[KnownAgent, list[str]]:
    """Return the agent of that name, else of the command's first word, and the command that starts it.

    An unknown program gets its instructions `otherwise`. Raises InvalidInputError for an unknown name.
    """
    if name is not None and name not in agents:
        raise InvalidInputError(
            f"there is no agent {name[:32]!r} in the table",
            hint=f"known: {', '.join(agents)}; or --agent-command",
        )
    program = os.path.basename(command[0]) if command else ""
    agent = agents.get(name or program)
    if agent is None:
        label = program if _NAME.fullmatch(program) else "command"
        agent = KnownAgent(label, otherwise, "")
    if delivery is not None:
        agent = agent._replace(delivery=InstructionsBy(delivery))
    words = list(command) or shlex.split(agent.command)
    if not words:
        raise InvalidInputError("which agent?", hint="--agent NAME, or --agent-command 'COMMAND …'")
    return agent, words
