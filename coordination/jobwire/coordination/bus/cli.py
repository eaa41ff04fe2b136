"""`jobwire bus ...`: what agents of other systems read and write as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.coordination.bus.formats import EXPORTS, IMPORTS
from jobwire.coordination.verbs import Row, VerbTable, verbs_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from jobwire.core.commands import CommandParser

PROG = "bus"
SUMMARY = "the folders of other systems: export to them, import from them"


def _folder(parser: CommandParser, formats: Iterable[str]) -> None:
    add = parser.add_argument
    add("folder", metavar="FOLDER", help="the bus: a folder, or for jsonl a file")
    add("--format", required=True, choices=list(formats), help="whose bus it is")
    add("--run", dest="run_id", metavar="NAME", default="default", help="the run (default: default)")


def _export(parser: CommandParser) -> None:
    _folder(parser, EXPORTS)


def _import(parser: CommandParser) -> None:
    _folder(parser, IMPORTS)


_TABLE: tuple[Row, ...] = (
    ("export", "write a run for the readers of another system", ".message-bus --format message-bus", _export),
    ("import", "take in what another system wrote", ".message-bus --format message-bus", _import),
)
VERBS = verbs_of(PROG, _TABLE, runs="bus.actions:bus_")
BUS = VerbTable(PROG, SUMMARY, "Folders that other systems read and write: one snapshot a call.", VERBS)


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bus` to `jobwire`."""
    BUS.add_to(commands)
