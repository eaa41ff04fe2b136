"""`jobwire hook AGENT`: what the hooks of coding agents call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.core.commands import CommandRow
from jobwire.hooks.kinds import NAMES
from jobwire.hooks.main import WAKE
from jobwire.storage.home import Need

if TYPE_CHECKING:
    import argparse


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `jobwire hook`."""
    CommandRow(
        "hook",
        "what a coding agent's own hooks call",
        "jobwire hook claude < input.json",
        _options,
        "jobwire.hooks.main:command",
    ).add_to(subparsers)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        f"{parser.description}\n\nReads a hook's input as JSON from stdin, makes it an event or a request of"
        " the job that this runs\nin, and prints the answer in the agent's form. Outside of a job it does"
        " nothing. It fails open: the exit\ncode is 0 whatever happens, and the agent goes its own way."
        " docs/agent-programs.md shows how agents get it."
    )
    parser.set_defaults(home_need=Need.NOTHING)
    parser.add_argument("agent", choices=tuple(NAMES), help="whose hook")
    parser.add_argument("input", nargs="?", metavar="JSON", help="the input as a word (Codex's notify)")
    parser.add_argument(WAKE, action="store_true", help="wait behind a turn, and wake the agent: exit code 2")
