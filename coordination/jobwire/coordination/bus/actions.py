"""What the verbs of `jobwire bus` do."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING

from jobwire.coordination.bus.formats import EXPORTS, IMPORTS
from jobwire.coordination.command import say
from jobwire.coordination.places import open_store
from jobwire.core.terminal_text import safe

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping


def bus_export(args: Namespace) -> int:
    """Write a bus."""
    return _run(args, EXPORTS, "written")


def bus_import(args: Namespace) -> int:
    """Take a bus in; what could not be read is said, and the rest is taken."""
    return _run(args, IMPORTS, "taken in")


def _run(args: Namespace, formats: Mapping[str, str], done: str) -> int:
    module, _, function = formats[args.format].partition(":")
    act = getattr(importlib.import_module(f"jobwire.coordination.bus.{module}"), function)
    store = open_store(args)
    path = os.path.abspath(args.folder)
    found: dict[str, object] = act(store, path, args.run_id)
    problems = found.get("problems")
    if isinstance(problems, list) and not args.json:
        for line in problems:
            sys.stderr.write(f"jobwire: {safe(str(line))}\n")
    counts = ", ".join(f"{name} {value}" for name, value in found.items() if isinstance(value, int))
    say(
        args,
        {"format": args.format, "path": path, "event_id": store.latest_event(), **found},
        f"{done}: {counts}",
    )
    return 0
