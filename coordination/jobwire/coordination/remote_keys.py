"""The keys of agents on other hosts: one 0600 file each, in `<home>/keys/agents/`; a ticket has a copy."""

from __future__ import annotations

import os

from jobwire.core.signature import new_token
from jobwire.storage.durable import make_directories, replace_durably
from jobwire.storage.failures import storage_failure
from jobwire.storage.files import SystemFiles
from jobwire.storage.home_paths import HomePaths
from jobwire.storage.named_files import read_named_file

_LONGEST = 1024


class AgentKeys:
    """Reads keys, and reads one again when its file has changed."""

    def __init__(self, home: str) -> None:
        self._paths = HomePaths(home)
        self._known: dict[str, tuple[tuple[int, int], str]] = {}

    def key(self, agent: str) -> str | None:
        """Return the agent's key; None where it has none. Raises ConfigError for a file open to others."""
        path = self._paths.agent_key_path(agent)
        try:
            status = os.stat(path)
            seen = (status.st_mtime_ns, status.st_ino)
            known = self._known.get(agent)
            if known is None or known[0] != seen:
                text = read_named_file(path, "agent's key", limit=_LONGEST, private=True).decode().strip()
                known = self._known[agent] = (seen, text)
        except FileNotFoundError:
            self._known.pop(agent, None)
            return None
        return known[1]

    def renew(self, agent: str) -> str:
        """Give the agent a new key, durably, and return it: what was signed with the old one is refused."""
        path = self._paths.agent_key_path(agent)
        files = SystemFiles()
        try:
            make_directories(os.path.dirname(path), files=files)
        except OSError as error:
            raise storage_failure("create", path, error) from error
        key = new_token()
        replace_durably(path, key.encode() + b"\n", files=files)
        return key
