"""`jobwire registry ...`: its commands. What they take stands in `arguments`, what they do in `actions`."""

from functools import partial

from jobwire.core.commands import Body, CommandRow, Subparsers, add_group
from jobwire.registry import arguments

_ACTIONS, _PROCESS = "jobwire.registry.actions", "jobwire.registry.process_actions"
_command = partial(CommandRow, bodies=_ACTIONS)
_request_command = partial(CommandRow, bodies="jobwire.registry.request_commands", told=True)

LIST = _command(
    "list",
    "list jobs, newest first (--json: one line a job)",
    "%(prog)s --status running --status pending --limit 20",
    arguments.list_options,
    f"{_ACTIONS}:list_jobs",
)
CANCEL = _command(
    "cancel",
    "cancel a job; its worker learns of it when it speaks",
    "%(prog)s 1a2b3c4d --reason 'no longer needed'",
    arguments.cancel_options,
)
DISMISS = _command(
    "dismiss",
    "take failed jobs out of the failures that status bar, top and page count",
    "%(prog)s 1a2b3c4d",
    arguments.dismiss_options,
)
_SERVE = CommandRow(
    "serve",
    "run the registry process: journal the wire, keep the records, publish states",
    "%(prog)s --home /var/lib/jobwire",
    arguments.serve_options,
    bodies=_PROCESS,
)
ANSWER = _request_command(
    "answer",
    "answer what a job asks; the first answer is the answer",
    "%(prog)s 0a1b2c3d yes\n  %(prog)s 0a1b2c3d.5f20 --choice yes --always",
    arguments.answer_options,
)
FEED = _request_command(
    "feed",
    "all that waits for you, the oldest and costliest first",
    "%(prog)s --watch",
    arguments.feed_options,
)
_COMMANDS = (
    _command(
        "register",
        "create a pending job (or name the one that exists under its key)",
        "jobwire registry register --title 'build docs' --instructions-file task.md --idempotency-key d-42",
        arguments.register_options,
    ),
    _command(
        "pick",
        "claim the oldest pending job of the highest priority",
        "jobwire registry pick --agent-session builder --wait 60 --json",
        arguments.pick_options,
    ),
    _command(
        "claim",
        "claim this very job, if it is pending (else exit 20)",
        "jobwire registry claim 1a2b3c4d --owner builder",
        arguments.claim_options,
    ),
    _command(
        "renew",
        "extend the lease of a picked job (each event does it too)",
        "jobwire registry renew 1a2b3c4d --for-attempt 1 --lease 600",
        arguments.renew_options,
    ),
    _command(
        "release",
        "give a picked job back: pending again as the next attempt",
        "jobwire registry release 1a2b3c4d --for-attempt 1 --reason 'no compiler here'",
        arguments.release_options,
    ),
    _command(
        "show",
        "print one job, without its secrets",
        "jobwire registry show 1a2b3c4d --history 20",
        arguments.show_options,
    ),
    LIST,
    CANCEL,
    DISMISS,
    _command(
        "update",
        "change a job, if it still is as expected (compare and set)",
        "jobwire registry update 1a2b3c4d --priority high --expect-status pending --expect-seq 0",
        arguments.update_options,
    ),
    _command(
        "reap",
        "move on what ran out of time: leases, idle, wall and pending timeouts",
        "jobwire registry reap --json",
    ),
    _command("reindex", "make the pending index again from all records", "jobwire registry reindex"),
    _SERVE,
    _command(
        "health",
        "tell how the registry process does (exit 0: well)",
        "jobwire registry health --json",
        run=f"{_PROCESS}:show_health",
    ),
    _command(
        "purge",
        "clear retained messages of finished jobs, remove old jobs",
        "jobwire registry purge --keep-retained 7 --keep-records 90",
        arguments.purge_options,
        f"{_PROCESS}:purge",
    ),
    _command(
        "ticket",
        "write what a worker on another host needs to a secret file",
        "jobwire registry ticket 1a2b3c4d --broker broker=mq.example.org --certificate > job.ticket",
        arguments.ticket_options,
        "jobwire.registry.ticket_actions:ticket",
    ),
)


def add_commands(subparsers: Subparsers, *, serve: Body | None = None) -> None:
    """Add `registry` and its commands to the umbrella; `serve` runs the process, in company."""
    add_group(
        subparsers,
        "registry",
        "register, pick, watch over and finish jobs on disk",
        [row._replace(run=serve) if row is _SERVE else row for row in _COMMANDS],
        description="The durable record of every job, below --home.",
    )


def add_serve(commands: Subparsers, run: Body | None = None) -> None:
    """Add `serve`."""
    _SERVE._replace(run=run).add_to(commands)
