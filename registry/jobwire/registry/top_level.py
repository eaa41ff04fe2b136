"""`jobwire list`, `cancel`, `answer` and so on: the registry's commands that people type most."""

from jobwire.registry.cli import (
    Subparsers,
    add_answer,
    add_cancel,
    add_dismiss,
    add_feed,
    add_list,
)


def add_commands(subparsers: Subparsers) -> None:
    """Add the commands to the umbrella."""
    for add in (add_list, add_cancel, add_dismiss, add_answer, add_feed):
        add(subparsers, "jobwire")
