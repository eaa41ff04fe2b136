"""What `jobwire up` runs for a home: the file that says it, for whoever looks."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jobwire.core.errors import ConfigError
from jobwire.storage import file_lock
from jobwire.storage.files import StrPath
from jobwire.storage.home_paths import HomePaths
from jobwire.storage.named_files import read_named_file

FOLDER = "up"
STATE_FILE = f"{FOLDER}/up.json"
LOCK = "up"
READY = "ready"
_MAX_BYTES = 64 * 1024


class RunningPart(NamedTuple):
    """A part: ready, starting or waiting; where it is reached ("" for a part that nobody connects to)."""

    name: str
    state: str
    address: str
    log: str


def running_parts(home: StrPath) -> Sequence[RunningPart]:
    """Return the parts of the home's `jobwire up`; none where it does not run or cannot be asked."""
    paths = HomePaths(home)
    if not file_lock.is_held(paths.lock_path(LOCK)):
        return ()  # what a killed one left
    try:
        body = json.loads(read_named_file(f"{paths.home}/{STATE_FILE}", "state", limit=_MAX_BYTES))
        return [_part(name, part) for name, part in body["parts"].items()]
    except (FileNotFoundError, ConfigError, ValueError, KeyError, TypeError, AttributeError):
        return ()


def address_in(line: Mapping[str, object]) -> str:
    """Return where a part is reached, as its ready line says, without the token of a page."""
    if "url" in line:
        return str(line["url"]).partition("?")[0]
    return f"{line['host']}:{line['port']}" if {"host", "port"} <= line.keys() else ""


def _part(name: str, part: Mapping[str, object]) -> RunningPart:
    return RunningPart(name, str(part["state"]), str(part.get("address", "")), str(part["log"]))
