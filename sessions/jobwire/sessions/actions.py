"""What the verbs of `jobwire sessions` do."""

from __future__ import annotations

import os
import shlex
import sys
import time
from typing import TYPE_CHECKING

from jobwire.coordination.command import say
from jobwire.core.errors import ConfigError, ConflictError, InvalidInputError, NotFoundError
from jobwire.core.terminal_text import safe, table
from jobwire.runner.tmux import Pane, Tmux
from jobwire.sessions.known_agents import InstructionsBy, KnownAgent, choose
from jobwire.sessions.listing import Sessions, SessionView
from jobwire.sessions.opening import NewSession, Opener, own_agents
from jobwire.sessions.reconciling import Carried, Reconciler
from jobwire.sessions.sending import CONFIRMED, MAX_TEXT, SENT, UNAVAILABLE, Sender
from jobwire.sessions.stopping import StopHow, Stopping
from jobwire.storage.home import find_home
from jobwire.storage.named_files import read_named_file

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

_BYTES_A_CHARACTER = 4
_SHELL = "/bin/sh"


def sessions_create(args: Namespace) -> int:
    """Open a session."""
    home = _home(args)
    agent, words = chosen(args, otherwise=InstructionsBy.LINE, may_be_shell=True)
    if not agent.lives_on:
        raise InvalidInputError(
            f"{agent.name} is started once a job: it waits for none",
            hint="`jobwire submit` starts it, or --deliver line",
        )
    row = Opener(home).create(
        NewSession(
            args.session,
            agent,
            words,
            args.directory or os.getcwd(),
            socket=args.tmux_socket,
            title=args.title,
            agent_id=args.agent_id,
            idle_seconds=args.idle,
            idle_policy=args.when_idle,
            conversation=args.conversation,
        )
    )
    say(args, {"session": row.to_json()}, f"session {row.name}: {row.agent} in pane {row.pane}")
    return 0


def sessions_list(args: Namespace) -> int:
    """List sessions."""
    views = Sessions(_home(args)).list(lines=args.lines, everything=args.all)
    say(args, {"sessions": [view.to_json() for view in views]}, lambda: _listed(views))
    return 0


def sessions_show(args: Namespace) -> int:
    """Show one session."""
    view = Sessions(_home(args)).show(args.session, lines=args.lines)
    say(args, {"session": view.to_json()}, lambda: _shown(view))
    return 0


def sessions_send(args: Namespace) -> int:
    """Paste a text."""
    sender = Sender(_home(args))
    text = read_text(args.text, None, limit=MAX_TEXT)
    sent = sender.send(args.session, text, enter=not args.no_enter)
    if sent.word not in {CONFIRMED, SENT}:
        kind = NotFoundError if sent.word == UNAVAILABLE else ConflictError
        raise kind(
            f"not sent: {sent.detail}",
            hint=f"`jobwire sessions attach {args.session}` shows its pane",
            code="not_found" if sent.word == UNAVAILABLE else "not_expected",
            response={"sent": sent.word},
        )
    said = "sent" if sent.word == CONFIRMED else f"sent, but not seen to arrive: {sent.detail}"
    say(args, {"sent": sent.word, "detail": sent.detail}, said)
    return 0


def sessions_attach(args: Namespace) -> int:
    """Show a session's pane in this terminal."""
    view = Sessions(_home(args)).show(args.session, lines=0)
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
    pane, tmux = Pane(row.socket, row.name, row.pane, row.pid), Tmux.at(row.socket)
    here = os.environ.get("TMUX", "").split(",")[0]
    if not here:
        tmux.attach(pane)
    elif here == row.socket:
        tmux.switch(pane)
    else:
        raise ConfigError("it runs in another tmux", hint=f"from outside of this one: {view.attach}")
    return 0


def sessions_stop(args: Namespace) -> int:
    """End a session."""
    how = StopHow.HARD if args.hard else StopHow.SOFT if args.soft else StopHow.GRACEFUL
    row = Stopping(_home(args)).stop(args.session, how, quit_seconds=args.quit_seconds)
    say(args, {"session": row.to_json()}, f"session {row.name} is {row.state}")
    return 0


def sessions_resume(args: Namespace) -> int:
    """Bring sessions back."""
    opener = Opener(_home(args))
    if bool(args.session) == args.all:
        raise InvalidInputError("which session?", hint="name it, or --all")
    rows = opener.resume_all() if args.all else [opener.resume(args.session)]
    lines = [f"session {row.name}: {row.agent} in pane {row.pane}" for row in rows]
    say(args, {"sessions": [row.to_json() for row in rows]}, "\n".join(lines) or "nothing to bring back")
    return 0


def sessions_reconcile(args: Namespace) -> int:
    """Compare tmux, inventory and jobs."""
    reconciler = Reconciler(_home(args))
    if args.session:
        reconciler.inventory.get(args.session)
    if args.dry_run:
        carried = [Carried(finding, done=False) for _, finding in reconciler.look(args.session)]
    else:
        carried = reconciler.run(args.session)
    lines = [
        f"session {one.finding.session}: {one.finding.text}"
        + (
            f" (not done: {one.error or 'it has changed meanwhile'})"
            if not one.done and not args.dry_run
            else ""
        )
        for one in carried
    ]
    body = {"findings": [one.to_json() for one in carried]}
    say(args, body, "\n".join(map(safe, lines)) or "all is as it should be")
    return 0


def sessions_prune(args: Namespace) -> int:
    """Forget those that ended long ago."""
    inventory = Opener(_home(args)).inventory
    before = (time.time() - args.days * 86400) * 1000
    ended = [
        row for row in inventory.rows() if row.state in {"stopped", "terminated"} and row.changed_ms <= before
    ]
    for row in ended:
        inventory.forget(row.name)
    said = "\n".join(f"session {row.name} is forgotten" for row in ended)
    say(args, {"sessions": [row.to_json() for row in ended]}, said or "nothing ended that long ago")
    return 0


def chosen(
    args: Namespace, *, otherwise: InstructionsBy, may_be_shell: bool = False
) -> tuple[KnownAgent, list[str]]:
    """Return the agent that the options name, and its command. Raises InvalidInputError."""
    try:
        command = shlex.split(args.agent_command or "")
    except ValueError as error:
        raise InvalidInputError(
            f"--agent-command cannot be read: {error}", hint="quote it as in a shell"
        ) from error
    name = args.agent
    if may_be_shell and not name and not command:
        name = "shell"
    if name == "shell" and not command:
        command = [os.environ.get("SHELL") or _SHELL]
    return choose(own_agents(), name, command, delivery=args.deliver, otherwise=otherwise)


def read_text(text: str | None, file: str | None, *, limit: int) -> str:
    """Return the text of the command line, a file or stdin. Raises InvalidInputError."""
    if (text is None) == (file is None):
        raise InvalidInputError("which text?", hint="write it, or --file FILE, - for stdin")
    if text is not None and text != "-":
        return text.encode(errors="replace").decode()
    most = limit * _BYTES_A_CHARACTER
    if file in {None, "-"}:
        found = sys.stdin.buffer.read(most + 1)
    else:
        try:
            found = read_named_file(str(file), "text", limit=most)
        except FileNotFoundError as error:
            raise InvalidInputError(f"cannot read {safe(str(file))}: no such file") from error
    if len(found) > most:
        raise InvalidInputError(
            f"the text has more than {limit} characters", hint="name a file in it", code="too_large"
        )
    try:
        return found.decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError("the text is not UTF-8") from error


def _home(args: Namespace) -> str:
    return find_home(args.home, os.environ)


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
