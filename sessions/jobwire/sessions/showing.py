"""What the verbs of `jobwire sessions` do that only look: list, show, attach."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from jobwire.core.errors import ConfigError, NotFoundError
from jobwire.core.terminal_text import safe, table
from jobwire.core.told import say
from jobwire.sessions.listing import Sessions, SessionView
from jobwire.storage.home import find_home

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence


def home_of(args: Namespace) -> str:
    """Return the home that the command works on. Raises NotFoundError."""
    return find_home(args.home, os.environ)


def sessions_list(args: Namespace) -> int:
    """List sessions."""
    views = Sessions(home_of(args)).list(lines=args.lines, everything=args.all)
    say(args, {"sessions": [view.to_json() for view in views]}, lambda: _listed(views))
    return 0


def sessions_show(args: Namespace) -> int:
    """Show one session."""
    view = Sessions(home_of(args)).show(args.session, lines=args.lines)
    say(args, {"session": view.to_json()}, lambda: _shown(view))
    return 0


def sessions_attach(args: Namespace) -> int:
    """Show a session's pane in this terminal."""
    view = Sessions(home_of(args)).show(args.session, lines=0)
    row = view.row
    if not view.alive:
        raise NotFoundError(
            f"session {row.name} has no pane: it is {row.state}",
            hint=f"`jobwire sessions resume {row.name}` brings it back",
            code="not_found",
        )
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        say(args, {"attach": view.attach}, view.attach)
        return 0
    from jobwire.runner.tmux import Pane, Tmux  # noqa: PLC0415 - at a terminal only

    pane, tmux = Pane(row.socket, row.name, row.pane, row.pid), Tmux.at(row.socket)
    here = os.environ.get("TMUX", "").split(",")[0]
    if not here:
        tmux.attach(pane)
    elif here == row.socket:
        tmux.switch(pane)
    else:
        raise ConfigError("it runs in another tmux", hint=f"from outside of this one: {view.attach}")
    return 0


def _listed(views: Sequence[SessionView]) -> str:
    if not views:
        return "no sessions"
    header = ("SESSION", "STATE", "AGENT", "JOB", "", "SILENT", "TITLE")
    rows = [
        (
            view.row.name,
            view.row.state if view.alive or view.row.state != "running" else "running?",
            view.row.agent,
            view.row.job_id,
            "asks" if view.job is not None and view.job.attention else view.job.status if view.job else "",
            _seconds(view.idle_for_seconds),
            view.row.title or view.row.reason,
        )
        for view in views
    ]
    lines = table([header, *rows], _columns())
    shown = [
        [line, *(f"    {text}" for text in view.lines)] for line, view in zip(lines[1:], views, strict=True)
    ]
    return "\n".join([lines[0], *(line for part in shown for line in part)])


def _shown(view: SessionView) -> str:
    row, said = view.row, view.to_json()
    facts = [
        ("session", row.name + (f": {row.title}" if row.title else "")),
        ("state", f"{row.state}{f', {row.reason}' if row.reason else ''}"),
        ("agent", f"{row.agent}, {row.agent_id} in the inbox"),
        ("directory", row.directory),
        ("job", f"{row.job_id} {said['job_status']}".strip()),
        ("conversation", row.conversation),
        ("silent", _seconds(view.idle_for_seconds)),
        ("attach", view.attach),
    ]
    lines = [f"{name:<13} {safe(str(value))}" for name, value in facts if value]
    return "\n".join([*lines, *(f"    {line}" for line in view.lines)])


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes = int(seconds) // 60
    if not minutes:
        return f"{int(seconds)} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"  # noqa: PLR2004 - two hours


def _columns() -> int | None:
    if not sys.stdout.isatty():
        return None
    return os.get_terminal_size(sys.stdout.fileno()).columns
