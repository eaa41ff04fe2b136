"""`jobwire list`, `cancel` and `dismiss`: the registry's commands that people type most, without its name."""

from jobwire.registry.cli import Subparsers, add_cancel, add_dismiss, add_list


def add_commands(subparsers: Subparsers) -> None:
    """Add the commands to the umbrella."""
    for add in (add_list, add_cancel, add_dismiss):
        add(subparsers, "jobwire")
