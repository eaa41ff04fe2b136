"""Files that somebody named: an option, a variable, a setting. What they are is not ours to know.

A pipe with nobody at its other end, a device, a file that never ends: opening or reading one would wait
for ever, and a command that waits says nothing.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

from jobwire.core.errors import ConfigError, InvalidInputError

if TYPE_CHECKING:
    from jobwire.storage.files import StrPath

_CHUNK = 64 * 1024


def read_named_file(path: StrPath, what: str, *, limit: int, private: bool = False, hint: str = "") -> bytes:
    """Return the bytes of a regular file of at most `limit` bytes; `what` names it in errors. Never waits.

    Raises FileNotFoundError where there is none: what that means, the caller knows. Raises ConfigError
    where it cannot be read, is not a regular file, is too large, or is `private` and open to others;
    `hint` is the remedy for the first two.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            _check(os.fstat(descriptor).st_mode, path, what, private=private, hint=hint)
            return _read(descriptor, path, what, limit)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise _unusable("read", path, what, error, hint) from error


def read_named_text(path: str, what: str, *, limit: int) -> str:
    """Return the text of a file of at most `limit` bytes, or of stdin where that is named: `-`.

    Raises InvalidInputError where there is none, for more bytes, and for what is not UTF-8; ConfigError as
    `read_named_file`.
    """
    try:
        if path == "-":
            # One byte more than allowed: enough to be refused with the right words.
            raw = sys.stdin.buffer.read(limit + 1)
        else:
            raw = read_named_file(path, what, limit=limit, hint="name a file, or - for stdin")
    except FileNotFoundError as error:
        raise InvalidInputError(f"cannot read {path}: no such file", hint="is its path right?") from error
    if len(raw) > limit:
        raise InvalidInputError(
            f"the {what} has more than {limit} bytes", hint="name a file in it", code="too_large"
        )
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"the {what} is not UTF-8", hint="is it a text file?") from error


def check_named_file(path: StrPath, what: str, *, private: bool = False, hint: str = "") -> None:
    """Raise ConfigError unless `path` is a regular file, and a private one where that is asked for.

    For files that a library opens by itself.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        raise _unusable("read", path, what, error, hint) from error
    _check(mode, path, what, private=private, hint=hint)


def check_target(path: StrPath, what: str) -> None:
    """Raise ConfigError if what stands where a file is to be written is not a file.

    A pipe would be waited for, and a device would be replaced.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise _unusable("write", path, what, error) from error
    _check(mode, path, what, private=False, hint="")


def rights_of_others(mode: int, *, to_write: bool = False) -> str:
    """Return `mode` as chmod takes it if group or others may use what has it (may write to it), else "".

    The one rule about what is its owner's alone.
    """
    others = stat.S_IWGRP | stat.S_IWOTH if to_write else stat.S_IRWXG | stat.S_IRWXO
    return f"{stat.S_IMODE(mode):04o}" if mode & others else ""


def exposure(path: StrPath, *, to_write: bool = False) -> ConfigError | None:
    """Return the error for a secret file or folder that group or others may use, None for a private one.

    With `to_write` they may read it. Also None where it is absent or cannot be examined: that is for its
    reader to say.
    """
    try:
        mode = os.stat(path).st_mode
        if to_write or stat.S_ISDIR(mode):
            _check_rights(mode, path, os.fspath(path), to_write=to_write)
        else:
            _check(mode, path, "secret file", private=True, hint="")
    except OSError:
        return None
    except ConfigError as error:
        return error
    return None


def _check(mode: int, path: StrPath, what: str, *, private: bool, hint: str) -> None:
    if not stat.S_ISREG(mode):
        raise ConfigError(
            f"the {what} {os.fspath(path)} is {_kind(mode)}, not a file",
            hint=hint or "name a regular file",
            path=os.fspath(path),
        )
    if private:
        _check_rights(mode, path, f"the {what} {os.fspath(path)}")


def _check_rights(mode: int, path: StrPath, name: str, *, to_write: bool = False) -> None:
    if not (shown := rights_of_others(mode, to_write=to_write)):
        return
    if to_write:
        remedy = f"chmod go-w {os.fspath(path)}"
    elif stat.S_ISDIR(mode):
        remedy = f"chmod 700 {os.fspath(path)}"
    else:
        remedy = f"chmod 600 {os.fspath(path)}; if somebody may have read it, replace what it holds"
    raise ConfigError(
        f"{name} is {'writable by others' if to_write else 'open to other users'} (mode {shown})",
        hint=remedy,
        path=os.fspath(path),
        mode=stat.S_IMODE(mode),
    )


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    return "a pipe" if stat.S_ISFIFO(mode) else "a device or socket"


def _read(descriptor: int, path: StrPath, what: str, limit: int) -> bytes:
    content = bytearray()
    while more := os.read(descriptor, min(_CHUNK, limit + 1 - len(content))):
        content += more
    if len(content) > limit:
        raise ConfigError(
            f"the {what} {os.fspath(path)} has more than {limit} bytes",
            hint="is it the right file?",
            path=os.fspath(path),
            limit=limit,
            code="too_large",
        )
    return bytes(content)


def _unusable(
    action: str, path: StrPath, what: str, error: OSError | ValueError, hint: str = ""
) -> ConfigError:
    # ValueError: a NUL in the name.
    reason = error.strerror if isinstance(error, OSError) else error
    return ConfigError(
        f"cannot {action} the {what} {os.fspath(path)!s}: {reason}", hint=hint, path=os.fspath(path)
    )
