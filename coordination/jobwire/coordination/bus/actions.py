"""What the verbs of `jobwire bus` do."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING

from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.bus.cli import EXPORTS, IMPORTS
from jobwire.coordination.export import export_messages
from jobwire.coordination.places import open_store
from jobwire.core.errors import NotFoundError, StorageError
from jobwire.core.terminal_text import safe
from jobwire.core.told import say

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Mapping

    from jobwire.coordination.store import CoordinationStore


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


def write_lines(store: CoordinationStore, path: str, run_id: str) -> dict[str, object]:
    """Append the messages of all runs that the file does not hold yet, as lines of JSON."""
    del run_id
    exported = export_messages(store, path)
    return {"messages": exported.messages, "last_seq": exported.last_seq}


def bus_verify(args: Namespace) -> int:
    """Check the store's pages and references, and each blob by its hash; 50 where one is not as written."""
    store = open_store(args)
    refs = [str(ref) for (ref,) in store.rows("blobs_in_use")]
    problems = [*_wrong_rows(store), *_wrong_blobs(BlobFolder(store.home), refs)]
    body = {"blobs": len(refs), "problems": problems, "event_id": store.latest_event()}
    if problems:
        if not args.json:
            sys.stderr.writelines(f"jobwire: {safe(line)}\n" for line in problems)
        raise StorageError(
            f"the store {store.path} is not whole: {len(problems)} problems",
            hint="put the files that are named back from a copy of the home",
            path=store.path,
            code="storage",
            response=body,
        )
    say(args, body, f"whole: the store, and {len(refs)} blobs by their hash")
    return 0


def bus_prune(args: Namespace) -> int:
    """Remove the blobs that no message refers to; young ones stay: a message may be on its way."""
    store = open_store(args)
    removed = BlobFolder(store.home).collect(store)
    say(args, {"blobs_removed": removed, "event_id": store.latest_event()}, f"removed: blobs {removed}")
    return 0


def _wrong_rows(store: CoordinationStore) -> Iterator[str]:
    for (problem,) in store.rows("broken_pages"):
        yield str(problem)
    for table, row, parent in store.rows("broken_references"):
        yield f"row {row} of {table} refers to nothing in {parent}"


def _wrong_blobs(blobs: BlobFolder, refs: list[str]) -> Iterator[str]:
    for ref in refs:
        try:
            blobs.get(ref)
        except (NotFoundError, StorageError) as error:
            yield error.message
