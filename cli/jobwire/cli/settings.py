"""`jobwire settings`: every setting in force, and where it comes from."""

import argparse
import json
import os
import shutil

from jobwire.core.terminal_text import table
from jobwire.storage.settings_file import in_force, read_own_settings, read_settings

_HEADER = ("setting", "value", "from")


def run(args: argparse.Namespace) -> int:
    """Print the settings."""
    settings = in_force(read_settings(args.home), read_own_settings(os.environ), os.environ)
    if args.json:
        print(json.dumps({"home": args.home, "settings": [one._asdict() for one in settings]}))
        return 0
    rows = [(f"{one.table}.{one.key}", _words(one.value), one.source) for one in settings]
    print(f"home: {args.home}")
    print(*table([_HEADER, *rows], shutil.get_terminal_size((120, 24)).columns), sep="\n")
    return 0


def _words(value: object) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
