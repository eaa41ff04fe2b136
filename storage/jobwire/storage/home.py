"""Which home a command works on: the one rule of every entry point.

It is what --home names, else $JOBWIRE_HOME, else the nearest `.hermes` at or above the working directory,
as git finds a repository. One that is merely found must be the caller's own and not writable by others:
whoever can put a directory above ours would else give us settings, tokens and work. Who names a home may
use any that the operating system lets him use. On the path of `publish_event`: imports stay light.
"""

from __future__ import annotations

import errno
import os
import stat
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.bounds import fits_a_path
from jobwire.core.errors import InvalidInputError, JobwireError, NotFoundError, StorageError
from jobwire.storage.named_files import rights_of_others

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping

NAME = ".hermes"
VARIABLE = "JOBWIRE_HOME"
HELP = f"jobwire's directory (default: ${VARIABLE}, else the nearest {NAME} at or above this directory)"
# Each is in homes only: the last folder that the registry makes, and the settings that `broker up` writes.
_MARKS = ("queue/touched", "jobwire.toml")
# Of a path that cannot be one, whatever the disk holds.
_UNUSABLE = frozenset({errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EINVAL})
_OR_NAME = f"--home DIR or {VARIABLE} names another"


class Need(Enum):
    """What a command needs: its parser's default `home_need`, or a function of its arguments."""

    HOME = "a home that exists"
    PLACE = "a home, or the place to make one"
    ANY = "a home where there is one"
    NOTHING = "no home"


class PathStat(NamedTuple):
    """What stands at a path: the owners of it and of a link to it, and its mode with its type."""

    owners: frozenset[int]
    mode: int


class Directories:
    """The directories as the rule sees them: the operating system's. Each method may raise OSError."""

    @property
    def user(self) -> int:
        """Return who we are."""
        return os.geteuid()

    def working_directory(self) -> str:
        """Return where we stand, absolute."""
        return os.getcwd()

    def entry(self, path: str) -> PathStat | None:
        """Return what stands at `path`, None for nothing; a link that leads nowhere stands for itself."""
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return None
        owners = {found.st_uid}
        if stat.S_ISLNK(found.st_mode):
            try:
                found = os.stat(path)
            except FileNotFoundError:
                pass
            else:
                owners.add(found.st_uid)
        return PathStat(frozenset(owners), found.st_mode)

    def is_home(self, path: str) -> bool:
        """Tell whether the directory has one of the marks of a home."""
        return any(_exists(f"{path}/{mark}") for mark in _MARKS)


def _exists(path: str) -> bool:
    # Not os.path.exists: it says False where we may not look, and what nobody may see is no all-clear.
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


SYSTEM = Directories()


def find_home(option: str | None, environ: Mapping[str, str], directories: Directories = SYSTEM) -> str:
    """Return the home to work on; `option` is what --home named, None without it.

    Relative where it was named so or stands in the working directory. Raises NotFoundError where there is
    none, InvalidInputError for a name that cannot be one and for a found home that is not safely ours,
    StorageError where it cannot be examined.
    """
    named = _named(option, environ)
    if named is not None:
        entry = _entry(named, directories)
        if entry is None:
            raise NotFoundError(
                f"the home {named} does not exist", hint=f"`{_init(named)}` makes it; {_OR_NAME}", home=named
            )
        _require_directory(named, entry)
        if not is_home(named, directories):
            raise _no_home(named, f"`{_init(named)}` makes it one")
        return named
    path = _nearest(directories)
    if path is None:
        raise NotFoundError(
            f"there is no home ({NAME}) at or above {_working_directory(directories)}",
            hint=f"`jobwire init` makes one here, `jobwire up` with a broker and a page; {_OR_NAME}",
        )
    if not is_home(path, directories):
        raise _no_home(path, "`jobwire init` makes one here")
    return _shown(path, directories)


def place_for_home(
    option: str | None, environ: Mapping[str, str], directories: Directories = SYSTEM, *, above: bool = True
) -> str:
    """Return the home to work on, or the place for one that is to be made.

    Without `above`, a home above the working directory does not count. Raises as `find_home`.
    """
    named = _named(option, environ)
    if named is not None:
        entry = _entry(named, directories)
        if entry is not None:
            _require_directory(named, entry)
        return named
    path = _nearest(directories, above=above)
    if path is None or not is_home(path, directories):
        return NAME
    return _shown(path, directories)


def any_home(option: str | None, environ: Mapping[str, str], directories: Directories = SYSTEM) -> str | None:
    """Return the home to work on, None where there is none and none is named. Raises as `find_home`."""
    if _named(option, environ) is None and _nearest(directories) is None:
        return None
    return find_home(option, environ, directories)


def settle_home(args: Namespace, environ: Mapping[str, str], directories: Directories = SYSTEM) -> None:
    """Turn `args.home` from what --home named into the home that the command needs. Raises as `find_home`."""
    need = getattr(args, "home_need", Need.HOME)
    if callable(need):
        need = need(args)
    if need is Need.HOME:
        args.home = find_home(args.home, environ, directories)
    elif need is Need.PLACE:
        args.home = place_for_home(args.home, environ, directories)
    elif need is Need.ANY:
        args.home = any_home(args.home, environ, directories)
    else:
        _named(args.home, {})


def settled(run: Callable[[Namespace], int]) -> Callable[[Namespace], int]:
    """Return `run` for a command of its own: with the home that it needs in `args.home`."""

    def body(args: Namespace) -> int:
        settle_home(args, os.environ)
        return run(args)

    return body


def _named(option: str | None, environ: Mapping[str, str]) -> str | None:
    if option == "":
        raise InvalidInputError("--home is empty", hint="name a directory, or leave --home out")
    name = option if option is not None else environ.get(VARIABLE) or None
    if name is not None and not fits_a_path(name):
        raise InvalidInputError(f"the home {name!r} cannot be a path", hint=_OR_NAME)
    return name


def _nearest(directories: Directories, *, above: bool = True) -> str | None:
    """Return the nearest `.hermes`, None if there is none. Raises where it is not ours alone to change."""
    folder = _working_directory(directories)
    while True:
        path = os.path.join(folder, NAME)
        entry = _entry(path, directories)
        if entry is not None:
            _require_directory(path, entry)
            _require_own(path, entry, directories.user)
            return path
        if not above or folder == (folder := os.path.dirname(folder)):
            return None


def _working_directory(directories: Directories) -> str:
    try:
        return directories.working_directory()
    except OSError as error:
        raise NotFoundError(
            f"the working directory cannot be determined: {error.strerror}", hint=f"cd to another; {_OR_NAME}"
        ) from error


def _entry(path: str, directories: Directories) -> PathStat | None:
    try:
        return directories.entry(path)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> JobwireError:
    text = f"cannot examine {path}: {error.strerror}"
    if error.errno in _UNUSABLE:
        return InvalidInputError(text, hint=_OR_NAME)
    return StorageError(text, hint=f"who may read it? See its owner and mode; {_OR_NAME}", path=path)


def _require_directory(path: str, entry: PathStat) -> None:
    if not stat.S_ISDIR(entry.mode):
        raise InvalidInputError(f"the home {path} is not a directory", hint=_OR_NAME)


def _require_own(path: str, entry: PathStat, user: int) -> None:
    explicit = f"to use it all the same, name it: --home {_quoted(path)}, or {VARIABLE}"
    if others := entry.owners - {user}:
        raise InvalidInputError(
            f"the home {path} was found, but it belongs to user {min(others)}, not to you ({user})",
            hint=explicit,
            path=path,
        )
    if shown := rights_of_others(entry.mode, to_write=True):
        raise InvalidInputError(
            f"the home {path} was found, but it is writable by others (mode {shown})",
            hint=f"chmod go-w {_quoted(path)}; {explicit}",
            path=path,
        )


def is_home(path: str, directories: Directories = SYSTEM) -> bool:
    """Tell whether `path` is a home. Raises StorageError where that cannot be told."""
    try:
        return directories.is_home(path)
    except OSError as error:
        raise _unreadable(path, error) from error


def _no_home(path: str, remedy: str) -> NotFoundError:
    return NotFoundError(
        f"{path} is not a jobwire home: none of its files are there", hint=f"{remedy}; {_OR_NAME}"
    )


def _init(named: str) -> str:
    return f"jobwire --home {_quoted(named)} init"


def _shown(path: str, directories: Directories) -> str:
    """Return a found home as people read it best: by its name alone where they stand beside it."""
    return NAME if os.path.dirname(path) == _working_directory(directories) else path


def _quoted(path: str) -> str:
    import shlex  # noqa: PLC0415 - for errors only

    return shlex.quote(path)
