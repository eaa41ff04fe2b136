"""Looking into Spark's checkpoint before Spark does.

Spark makes no fsync for it: a power cut can leave an empty or torn last file, and then the query does
not start again. The tables hold the offsets themselves, so a checkpoint that is damaged, or that
disagrees with the tables, is set aside, and the query starts from the tables' offsets. Nothing is
lost or counted twice by that.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_VERSION_LINE = "v1"
_SET_ASIDE = ".set-aside"


class Batches(NamedTuple):
    """Where the last planned and the last finished batch end, by journal; empty before the first."""

    planned: Mapping[str, int]
    finished: Mapping[str, int]


class DamagedError(Exception):
    """The checkpoint cannot be read; the message says where."""


def reconcile(directory: Path, tables: Mapping[str, int], journals: Sequence[str]) -> str:
    """Make the checkpoint fit the tables, and return what was done, or "" where nothing was needed.

    `tables` holds the next offset of each journal in them, `journals` the identities in the order of
    the query's sources. Raises OSError.
    """
    if not directory.exists():
        return ""
    try:
        batches = read_checkpoint(directory, len(journals))
        trouble = _disagreement(batches, tables, journals)
    except DamagedError as error:
        trouble = f"is damaged ({error})"
    if not trouble:
        return ""
    set_aside(directory)
    return f"the checkpoint {trouble}: set aside; continuing from the offsets in the tables, nothing is lost"


def set_aside(directory: Path) -> None:
    """Move the checkpoint away; the copy of an earlier time goes. Raises OSError."""
    if not directory.exists():
        return
    target = directory.with_name(directory.name + _SET_ASIDE)
    shutil.rmtree(target, ignore_errors=True)
    directory.rename(target)


def read_checkpoint(directory: Path, sources: int) -> Batches:
    """Return where the batches end. Raises DamagedError for a file that Spark could not read."""
    _read_metadata(directory / "metadata")
    offsets, commits = _numbers(directory / "offsets"), _numbers(directory / "commits")
    if not offsets:
        return Batches({}, {})
    for number in commits[-2:]:
        _read_lines(directory / "commits" / str(number))
    places = {number: _read_places(directory / "offsets" / str(number), sources) for number in offsets[-2:]}
    last = offsets[-1]
    if commits and commits[-1] > last:
        raise DamagedError(f"batch {commits[-1]} is finished but was never planned")
    finished = places.get(commits[-1], {}) if commits else {}
    return Batches(places[last], finished)


def _disagreement(batches: Batches, tables: Mapping[str, int], journals: Sequence[str]) -> str:
    if batches.planned and set(batches.planned) != set(journals):
        return "belongs to other journals"
    for journal in journals:
        if journal not in batches.planned:
            continue
        next_offset = tables.get(journal)
        if next_offset is None or next_offset < batches.finished.get(journal, 0):
            return "is ahead of the tables"
        if next_offset > batches.planned[journal]:
            return "is behind the tables"
    return ""


def _read_metadata(path: Path) -> None:
    try:
        json.loads(path.read_bytes())["id"]
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{path.name} cannot be read") from error


def _numbers(folder: Path) -> list[int]:
    try:
        return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())
    except FileNotFoundError:
        return []


def _read_lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise DamagedError(f"{path.parent.name}/{path.name} cannot be read") from error
    if len(lines) < 2 or lines[0] != _VERSION_LINE:  # noqa: PLR2004 - the version and a body
        raise DamagedError(f"{path.parent.name}/{path.name} is {'cut short' if lines else 'empty'}")
    return lines


def _read_places(path: Path, sources: int) -> dict[str, int]:
    lines = _read_lines(path)
    try:
        json.loads(lines[1])
        places = [json.loads(line) for line in lines[2:]]
        found = {str(place["journal"]): int(place["offset"]) for place in places}
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{path.parent.name}/{path.name} is cut short") from error
    if len(places) != sources:
        raise DamagedError(f"{path.parent.name}/{path.name} is of {len(places)} journals, not {sources}")
    return found
