"""Which names a session may have: those that tmux takes as they are. Pure."""

import re
import zlib

from jobwire.core.errors import InvalidInputError

LONGEST_NAME = 64
# tmux(1), "target-session": they separate window and pane, and begin ids, flags and patterns. "#" begins a
# format, which tmux expands also in the name of a new session; `#(...)` would run a command.
_SEPARATORS = frozenset(":.#")
_MARKS = frozenset("-=$@%!{+~")
_PLAIN = re.compile(r"[^A-Za-z0-9_-]")


def check_session_name(name: str) -> str:
    """Return a name that tmux takes as it is; raises InvalidInputError for any other."""
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise InvalidInputError(f"a tmux session has a name of 1 to {LONGEST_NAME} printable characters")
    bad = _SEPARATORS & set(name) or _MARKS & {name[0]}
    if bad:
        raise InvalidInputError(
            f"{name!r} is not a name for a tmux session: tmux reads {min(bad)!r} as something else",
            hint="use letters, digits, - and _",
        )
    return name


def folder_name(name: str) -> str:
    """Return what the session's folder is called: its name, where that is plain."""
    plain = _PLAIN.sub("_", name)
    if plain == name:
        return name
    return f"{plain}.{zlib.crc32(name.encode()):08x}"
