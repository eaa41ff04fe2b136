"""`jobwire bus ...`: what agents of other systems read and write as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.coordination.verb_options import RUN, VerbOption, opt
from jobwire.coordination.verbs import Row, VerbTable, verbs_of

if TYPE_CHECKING:
    from collections.abc import Iterable

# For each format the module and function of this package that does it. A function takes the store, a path and
# a run, and returns what `--json` prints; `problems` is a list of what was left out, as lines for people.
EXPORTS = {
    "message-bus": "message_bus_export:write_bus",
    "session": "session_export:write_session",
    "jsonl": "actions:write_lines",
}
IMPORTS = {"message-bus": "message_bus_import:read_bus", "session": "session_import:read_session"}


def _folder(formats: Iterable[str]) -> tuple[VerbOption, ...]:
    return (
        opt("folder", metavar="FOLDER", help="the bus: a folder, or for jsonl a file"),
        opt("--format", required=True, choices=list(formats), help="whose bus it is"),
        RUN,
    )


_EXAMPLE = ".message-bus --format message-bus"
_TABLE: tuple[Row, ...] = (
    ("export", "write a run for the readers of another system", _EXAMPLE, _folder(EXPORTS)),
    ("import", "take in what another system wrote", _EXAMPLE, _folder(IMPORTS)),
    ("verify", "tell whether the store and its blobs are whole", "--json", ()),
    ("prune", "remove the blobs that no message refers to", "--json", ()),
)
VERBS = verbs_of("jobwire bus", _TABLE, runs="bus.actions:bus_{}")
BUS = VerbTable("bus", "Folders that other systems read and write, and the store behind them.", VERBS)
