"""The one name of what a file lock is on: a path inside a run's root as it really is, or `name:X`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobwire.coordination.locks.queue import is_name
from jobwire.core.bounds import check_line
from jobwire.core.errors import ConflictError, InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobwire.coordination.store import CoordinationStore

# PATH_MAX of Linux (path_resolution(7)).
MAX_TARGET = 4096


def targets_of(
    store: CoordinationStore, paths: Iterable[str], *, run_id: str, root: str | None = None
) -> list[str]:
    """Return the targets that paths mean, seen from the working directory, each once.

    `root` sets the run's folder; else it is the one that the home stands in: what its agents work on.
    """
    wanted = os.path.realpath(root) if root else None
    default = os.path.dirname(os.path.realpath(store.home))
    found = root_of(store, run_id, wanted=wanted, default=default)
    return list(dict.fromkeys(canonical(path, root=found, folder=os.getcwd()) for path in paths))


def root_of(store: CoordinationStore, run_id: str, *, wanted: str | None, default: str) -> str:
    """Return the folder that the run works on; `wanted` sets it, and must be it once there are locks."""
    found = next((str(row[0]) for row in store.rows("run_root", {"run_id": run_id})), None)
    if found is not None and wanted in {None, found}:
        return found
    with store.changing() as change:
        change.execute("put_run_root", {"run_id": run_id, "root": wanted or default})
        stored = str(change.rows("run_root", {"run_id": run_id})[0][0])
    if wanted not in {None, stored}:
        raise ConflictError(
            f"run {run_id} has locks below {stored}",
            hint="release them first, or name another run",
            code="not_expected",
        )
    return stored


def canonical(wanted: str, *, root: str, folder: str) -> str:
    """Return the target that `wanted` means, seen from `folder`: relative to `root`, links followed.

    A file that is not there yet is fine. `.` is the root itself, with all below it. Raises
    InvalidInputError for what lies outside of the root, or is no path that can be shown in a line.
    """
    check_line("name of the lock" if is_name(wanted) else "path", wanted, MAX_TARGET)
    if is_name(wanted):
        if wanted == "name:":
            raise InvalidInputError("the lock has no name", hint="for example name:deploy")
        return wanted
    try:
        home = os.path.realpath(root)
        path = os.path.realpath(f"{folder}/{wanted}" if wanted[:1] != "/" else wanted)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{wanted}: {error}", hint="name a file below the run's root") from error
    inside = os.path.relpath(path, home)
    if inside == os.pardir or inside.startswith(f"{os.pardir}/"):
        raise InvalidInputError(
            f"{wanted} lies outside of {home}", hint="locks are for what a run works on: its root and below"
        )
    # A link may lead to a name that the path itself did not show.
    check_line("path", inside, MAX_TARGET)
    inside = _as_the_disk_has_it(home, inside)
    return f"./{inside}" if is_name(inside) else inside


def _as_the_disk_has_it(root: str, inside: str) -> str:
    """Return the path with one spelling for all that mean the same file, where the disk ignores case."""
    folder, ignores = root, _ignores_case(*os.path.split(root))
    parts: list[str] = []
    for name in inside.split("/"):
        ignores = ignores or _ignores_case(folder, name)
        parts.append(name.casefold() if ignores else name)
        folder = f"{folder}/{name}"
    return "/".join(parts)


def _ignores_case(folder: str, name: str) -> bool:
    """Tell whether a file that is there has another spelling; some disks have that folder by folder."""
    other = name.swapcase()
    if other == name:
        return False
    try:
        found = os.path.samestat(os.lstat(f"{folder}/{name}"), os.lstat(f"{folder}/{other}"))
        # Two hard links of one file may differ in case alone.
        return found and not {name, other} <= set(os.listdir(folder))
    except OSError:
        return False
