"""The folder that a run works on, and what paths mean there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobwire.coordination.locks.targets import canonical
from jobwire.core.errors import ConflictError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobwire.coordination.store import CoordinationStore


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
