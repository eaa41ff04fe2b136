"""What is known of each agent, for people: docs/agent-programs.md and `jobwire doctor --agents` say it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jobwire.hooks import claude, codex, opencode
from jobwire.hooks.signs import Sign

if TYPE_CHECKING:
    from collections.abc import Mapping


class AgentFacts(NamedTuple):
    """One agent: how it gets our hooks, whether a question waits, what its pane can do meanwhile.

    `seen` is the version that was run against a scripted model; others are likely to do.
    """

    gets: str
    waits: str
    pane: str
    seen: str
    events: Mapping[str, Sign]


KNOWN: Mapping[str, AgentFacts] = {
    "claude": AgentFacts(
        "`--settings FILE`, your own `--settings` folded in; hooks of all files add up",
        "yes",
        "can answer as well",
        "2.1.197",
        claude.EVENTS,
    ),
    "codex": AgentFacts(
        "`-c hooks…`, trusted by their digest alone",
        "with `--approve-remotely`",
        "can answer as well; without it only there",
        "0.169.0",
        codex.EVENTS,
    ),
    "opencode": AgentFacts(
        "a plugin named by `$OPENCODE_CONFIG_CONTENT`, beside yours",
        "yes",
        "can answer as well",
        "1.18.33",
        opencode.EVENTS,
    ),
}
_OF_OTHERS = (
    "Others run as any command does (`jobwire run -- COMMAND`). Of their hooks their documents say this; none"
    " of them was run here:"
)
# What others' own documents say of their hooks (2026).
OTHERS: Mapping[str, tuple[str, str]] = {
    "Gemini CLI": (
        "`BeforeAgent`, `BeforeTool`, `AfterTool`, `AfterAgent`, `Notification`",
        "a tool denied; no permission",
    ),
    "Antigravity CLI": (
        "`SessionStart`, `PreInvocation`, `PostInvocation`, `Stop`",
        "the turn goes on; no permission",
    ),
    "Qwen Code, Kimi": (
        "the events of Claude Code, in its form",
        "as Claude Code's",
    ),
    "Aider, any command": ("none", "`::permission` lines, `jobwire ask`"),
}
_SAYS: Mapping[Sign, str] = {
    Sign.BEGUN: "a conversation begins",
    Sign.PROMPTED: "it is given a prompt",
    Sign.TOOL_BEFORE: "it is about to use a tool",
    Sign.TOOL_AFTER: "it used a tool",
    Sign.PERMISSION: "it asks for a permission",
    Sign.SETTLED: "that was answered elsewhere",
    Sign.NOTIFIED: "it waits at its prompt",
    Sign.TURN_END: "its turn ends",
    Sign.FAILED: "its model's service fails",
    Sign.ENDED: "the conversation ends",
}


def tables() -> str:
    """Return what is known as tables in Markdown: how agents get our hooks, which events are read, others."""
    rows = [
        f"| `{name}` | {one.gets} | {one.waits} | {one.pane} | {one.seen} |" for name, one in KNOWN.items()
    ]
    head = "| agent | how it gets our hooks | a question waits | its pane meanwhile | seen with |"
    events = [
        f"| {words} | {' | '.join(_named(one, sign) for one in KNOWN.values())} |"
        for sign, words in _SAYS.items()
    ]
    names = " | ".join(f"`{name}`" for name in KNOWN)
    return "\n".join(
        [
            *(
                head,
                "|---|---|---|---|---|",
                *rows,
                "",
                "Which of its events says what; all others are left alone:",
            ),
            *("", f"| | {names} |", f"|---|{'---|' * len(KNOWN)}", *events),
            *("", _OF_OTHERS, "", "| agent | its hooks tell | may be answered |", "|---|---|---|"),
            *(f"| {name} | {told} | {answered} |" for name, (told, answered) in OTHERS.items()),
        ]
    )


def _named(agent: AgentFacts, sign: Sign) -> str:
    return ", ".join(f"`{event}`" for event, one in agent.events.items() if one is sign) or "-"
