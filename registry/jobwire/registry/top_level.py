"""`jobwire serve`, `list`, `cancel` and `dismiss`: the registry's commands that people type most."""

from jobwire.registry.cli import Subparsers, add_cancel, add_dismiss, add_list, add_serve


def add_commands(subparsers: Subparsers) -> None:
    """Add the commands to the umbrella."""
    for add in (add_serve, add_list, add_cancel, add_dismiss):
        add(subparsers, "jobwire")
