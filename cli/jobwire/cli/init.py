"""`jobwire init`: makes the home that all other commands look for."""

import argparse
import json
import os
import shlex
import sys
from pathlib import Path

from jobwire.core.errors import InvalidInputError, JobwireError
from jobwire.registry.layout import HomeLayout
from jobwire.storage.home import NAME, VARIABLE, find_home, is_home, place_for_home

_NEXT = """\
next:
  jobwire up                  a broker, the registry process and a page, in a terminal of its own
  jobwire run -- make         any command as a watched job
  jobwire registry register   a job for a worker that picks it"""


def run(args: argparse.Namespace) -> int:
    """Make the home and say what may be done with it."""
    home = _place(args)
    before = _found()
    created = not is_home(home)
    HomeLayout(home).make_layout()
    path = Path(home).resolve()
    if args.json:
        print(json.dumps({"home": str(path), "created": created}))
        return 0
    print(f"made the home {path}" if created else f"the home {path} already exists")
    _say_what_leads_elsewhere(path, before)
    print(_NEXT)
    return 0


def _place(args: argparse.Namespace) -> str:
    option = args.home
    if args.directory is not None:
        if option is not None or not args.directory:
            raise InvalidInputError(
                "where should the home be?", hint="name DIR, or the home itself by --home"
            )
        option = str(Path(args.directory, NAME))
    return place_for_home(option, os.environ, above=False)


def _found() -> Path | None:
    """Return the home that commands here work on without an option."""
    try:
        return Path(find_home(None, os.environ)).resolve()
    except JobwireError:
        return None


def _say_what_leads_elsewhere(path: Path, before: Path | None) -> None:
    """Say where commands would work on another home than the one that was made."""
    if _found() != path:
        by_name = path.name == NAME and not os.environ.get(VARIABLE)
        where = f"commands find it in {path.parent} and below, elsewhere" if by_name else "commands use it"
        print(f"{where} by --home {shlex.quote(str(path))} or {VARIABLE}")
    elif before not in {None, path}:
        print(f"jobwire: note: from now on commands here use it, and no longer {before}", file=sys.stderr)
