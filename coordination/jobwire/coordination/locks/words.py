"""File locks in words, from what programs are told of them: the same at home and by a ticket. Pure."""

from __future__ import annotations

from typing import Any

from jobwire.core.terminal_text import safe, table

Told = dict[str, Any]


def held(found: Told) -> str:
    """Return what somebody holds, until when and by which token."""
    lines = [
        safe(f"{one['agent']} holds {one['path']} until {one['expires_at']} (token {one['token']})")
        for one in found["locks"]
    ]
    return "\n".join(lines) or "nothing"


def ended(found: Told, word: str) -> str:
    """Return whose locks ended, and how."""
    return "\n".join(safe(f"{one['agent']} {word} {one['path']}") for one in found["locks"]) or "nothing"


def broken(found: Told) -> str:
    """Return which locks were lost, or who must confirm that they are."""
    if not found["asked"]:
        return ended(found, "lost")
    target = found["locks"][0]["path"]
    return safe(f"asked: another agent confirms with `jobwire lock break {target} --confirm`")


def lock_table(found: Told) -> str:
    """Return who holds what and who waits, as lines of a table, and which locks somebody asks to break."""
    rows = [
        (one["path"], one["mode"], one["agent"], "holds", one["guard"], one["expires_at"], one["run_id"])
        for one in found["locks"]
    ] + [
        (" ".join(one["paths"]), one["mode"], one["agent"], "waits", "", "", one["run_id"])
        for one in found["waiting"]
    ]
    header = ("PATH", "MODE", "AGENT", "STATE", "GUARD", "UNTIL", "RUN")
    lines = table([header, *rows], None) if rows else ["nobody holds anything"]
    lines += [
        safe(
            f"{one['break_asked_by']} asks to break {one['agent']}'s lock on {one['path']}"
            f" ({one['break_reason']}): another agent confirms with `jobwire lock break PATH --confirm`"
        )
        for one in found["locks"]
        if one["break_asked_by"]
    ]
    return "\n".join(lines)
