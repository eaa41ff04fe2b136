"""`jobwire serve`, also `jobwire registry serve`: the registry process, and what others do in it."""

import argparse

from jobwire.core.commands import Subparsers
from jobwire.registry import cli as registry

_BODY = "jobwire.cli.serve:serve"


def add_commands(subparsers: Subparsers) -> None:
    """Add `serve`, and `registry` with its commands."""
    registry.add_commands(subparsers, serve=_BODY)
    registry.add_serve(subparsers, run=_BODY)


def serve(args: argparse.Namespace) -> int:
    """Run the registry process; in it agents elsewhere and short commands are served, panes are kept."""
    from jobwire.coordination.companions import companions  # noqa: PLC0415 - help is printed without them
    from jobwire.core.clock import SystemClock  # noqa: PLC0415 - as above
    from jobwire.hooks.kinds import NAMES  # noqa: PLC0415 - as above
    from jobwire.hooks.served import ServedHooks  # noqa: PLC0415 - as above
    from jobwire.publisher.cli import SERVED_NAME  # noqa: PLC0415 - as above
    from jobwire.publisher.served import ServedPublishes  # noqa: PLC0415 - as above
    from jobwire.registry import process_actions  # noqa: PLC0415 - as above
    from jobwire.sessions.duty import SessionKeeper  # noqa: PLC0415 - as above

    return process_actions.serve(
        args,
        lambda home, settings, writer: [
            *companions(home, settings, writer),
            SessionKeeper(str(home), SystemClock()),
        ],
        lambda home: {**dict.fromkeys(NAMES, ServedHooks(home)), SERVED_NAME: ServedPublishes(home)},
    )
