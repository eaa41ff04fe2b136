"""What the verbs of `jobwire sessions` do."""

from __future__ import annotations

import os
import shlex
import time
from typing import TYPE_CHECKING

from jobwire.core.errors import ConflictError, InvalidInputError, NotFoundError
from jobwire.core.terminal_text import safe
from jobwire.core.told import say
from jobwire.sessions.known_agents import InstructionsBy, KnownAgent, choose
from jobwire.sessions.opening import NewSession, Opener, own_agents
from jobwire.sessions.reconciling import Carried, Reconciler
from jobwire.sessions.sending import CONFIRMED, MAX_TEXT, SENT, UNAVAILABLE, Sender
from jobwire.sessions.showing import home_of
from jobwire.sessions.stopping import StopHow, Stopping
from jobwire.storage.named_files import read_named_text

if TYPE_CHECKING:
    from argparse import Namespace

_BYTES_A_CHARACTER = 4
_SHELL = "/bin/sh"


def sessions_create(args: Namespace) -> int:
    """Open a session."""
    home = home_of(args)
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


def sessions_send(args: Namespace) -> int:
    """Paste a text."""
    sender = Sender(home_of(args))
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


def sessions_stop(args: Namespace) -> int:
    """End a session."""
    how = StopHow.HARD if args.hard else StopHow.SOFT if args.soft else StopHow.GRACEFUL
    row = Stopping(home_of(args)).stop(args.session, how, quit_seconds=args.quit_seconds)
    say(args, {"session": row.to_json()}, f"session {row.name} is {row.state}")
    return 0


def sessions_resume(args: Namespace) -> int:
    """Bring sessions back."""
    opener = Opener(home_of(args))
    if bool(args.session) == args.all:
        raise InvalidInputError("which session?", hint="name it, or --all")
    rows = opener.resume_all() if args.all else [opener.resume(args.session)]
    lines = [f"session {row.name}: {row.agent} in pane {row.pane}" for row in rows]
    say(args, {"sessions": [row.to_json() for row in rows]}, "\n".join(lines) or "nothing to bring back")
    return 0


def sessions_reconcile(args: Namespace) -> int:
    """Compare tmux, inventory and jobs."""
    reconciler = Reconciler(home_of(args))
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
    inventory = Opener(home_of(args)).inventory
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
    return read_named_text(file or "-", "text", limit=limit * _BYTES_A_CHARACTER)
