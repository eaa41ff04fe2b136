"""The pages that are served for a home, each in a private file: their addresses can be shown again."""

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from jobwire.dashboard.foreign import whole_number
from jobwire.storage.durable import make_directories, replace_durably
from jobwire.storage.failures import storage_failure
from jobwire.storage.files import SystemFiles
from jobwire.storage.home_paths import HomePaths
from jobwire.storage.named_files import rights_of_others

_MAX_BYTES = 8192


class OpenPage(NamedTuple):
    """A page that is served: its address, the token where the address opens it, and the server's process."""

    url: str
    token: str
    pid: int

    @property
    def link(self) -> str:
        """Return the address that opens the page; it is as secret as the token."""
        return f"{self.url}?{urlencode({'token': self.token})}" if self.token else self.url


class OpenPages:
    """The pages of one home directory."""

    def __init__(self, home: Path) -> None:
        self._folder = HomePaths(home).dashboard

    @contextlib.contextmanager
    def listed(self, page: OpenPage, port: int) -> Iterator[None]:
        """Name the page to its owner for the block; the file has mode 0600. Raises StorageError."""
        path, files = self._folder / f"{port}.json", SystemFiles()
        try:
            make_directories(self._folder, files=files)
        except OSError as error:
            raise storage_failure("create", self._folder, error) from error
        replace_durably(path, json.dumps(page._asdict()).encode(), files=files)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)

    def find(self) -> list[OpenPage]:
        """Return the pages whose servers run."""
        if not self._folder.is_dir():
            return []
        found = [_read(path) for path in sorted(self._folder.glob("*.json")) if whole_number(path.stem)]
        return [page for page in found if page is not None and _runs(page.pid)]


def only_ours(status: os.stat_result) -> bool:
    """Tell whether what is written there is read by its owner alone: not a log, which others read as well.

    Standard output is a socket where systemd keeps it (systemd.exec(5)).
    """
    if stat.S_ISREG(status.st_mode):
        return not rights_of_others(status.st_mode)
    return not stat.S_ISSOCK(status.st_mode)


def _read(path: Path) -> OpenPage | None:
    try:
        with path.open("rb") as file:
            body = json.loads(file.read(_MAX_BYTES))
        return OpenPage(str(body["url"]), str(body["token"]), int(body["pid"]))
    except (OSError, ValueError, TypeError, KeyError):
        # Gone meanwhile, or not ours: then it names no page.
        return None


def _runs(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
