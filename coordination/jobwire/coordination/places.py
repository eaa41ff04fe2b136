"""Which home and which store a command works on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.marks import catch_up
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.tables import FILE
from jobwire.core.bounds import fits_a_path
from jobwire.core.errors import InvalidInputError, NotFoundError, StorageError
from jobwire.storage.home import NAME, VARIABLE, find_home, is_home, place_for_home
from jobwire.storage.sqlite.failures import DamagedDatabaseError, DatabaseVersionError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

DATABASE = "JOBWIRE_DB"


class Place(NamedTuple):
    """A home, and the store's file."""

    home: str
    path: str


def place_of(args: Namespace, environ: Mapping[str, str]) -> Place:
    """Return where the command works; raises as `find_home`.

    A store that is named has its home beside it, unless one is named as well: what is done with a store
    does not depend on the directory in which somebody stands.
    """
    path = _named(args, environ)
    if path is None or args.home is not None or environ.get(VARIABLE):
        home = find_home(args.home, environ)
        return Place(home, path or f"{home}/{FILE}")
    home = _beside(path)
    if not is_home(home):
        raise NotFoundError(
            f"there is no home {NAME} beside {path}",
            hint=f"`inbox init --db {path}` makes it",
            code="not_found",
        )
    return Place(home, path)


def place_to_make(args: Namespace, environ: Mapping[str, str]) -> Place:
    """Return where `init` makes home and store, or finds them."""
    path = _named(args, environ)
    if path is None or args.home is not None or environ.get(VARIABLE):
        home = place_for_home(args.home, environ)
        return Place(home, path or f"{home}/{FILE}")
    return Place(_beside(path), path)


def open_store(args: Namespace) -> CoordinationStore:
    """Return the store that the command works on: that of a home is made where it is not there yet."""
    place = place_of(args, os.environ)
    if _named(args, os.environ) is not None and not os.path.exists(place.path):
        raise NotFoundError(
            f"there is no store {place.path}",
            hint=f"`inbox init --db {place.path}` makes it",
            code="not_found",
        )
    return CoordinationStore(place.home, path=place.path)


def open_to_read(args: Namespace) -> CoordinationStore:
    """Return the store, brought up to the jobs; on a disk that takes no change, as it is."""
    store = open_store(args)
    try:
        catch_up(store)
    except (DamagedDatabaseError, DatabaseVersionError):
        raise
    except StorageError as error:
        if "pid" in error.facts:
            raise  # somebody writes for long: that is no fault of the disk
        # Read-only or full: the file can be read where it holds all, and no log waits beside it.
        wal = f"{store.path}-wal"
        if not os.path.exists(store.path) or (os.path.exists(wal) and os.path.getsize(wal)):
            raise
        store = CoordinationStore(store.home, path=store.path, frozen=True)
    return store


def _named(args: Namespace, environ: Mapping[str, str]) -> str | None:
    path = args.db or environ.get(DATABASE) or None
    if path is not None and not fits_a_path(path):
        raise InvalidInputError(f"the store {path!r} cannot be a path")
    return path


def _beside(path: str) -> str:
    return os.path.join(os.path.dirname(path), NAME)
