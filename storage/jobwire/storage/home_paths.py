"""Where everything lies below one home: the only place that knows the names.

On the path of `publish_event`, and what is asked for thousands of times a second is text: a path object
costs ten times as much.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobwire.core.topics import check_agent, check_job_id

if TYPE_CHECKING:
    from pathlib import Path

    from jobwire.storage.files import StrPath


class HomePaths:
    """The paths below one home directory. Nothing is made or looked at."""

    def __init__(self, home: StrPath) -> None:
        self.home = os.fspath(home)

    def record_path(self, job_id: str) -> str:
        """Return `jobs/<job_id>.json`."""
        return f"{self.home}/jobs/{check_job_id(job_id)}.json"

    def jobs_path(self) -> str:
        """Return `jobs/`, which holds the records."""
        return f"{self.home}/jobs"

    def log_dir(self, job_id: str) -> str:
        """Return `logs/<job_id>`, which holds the history and the worker's output.log."""
        return f"{self.home}/logs/{check_job_id(job_id)}"

    def sent_path(self, job_id: str) -> str:
        """Return `outbox/<job_id>.sent`: how far the history was sent; there while some may not be."""
        return f"{self.home}/outbox/{check_job_id(job_id)}.sent"

    def outbox_path(self, job_id: str) -> str:
        """Return `outbox/<job_id>.ndjson`, in which earlier versions kept what was not confirmed."""
        return f"{self.home}/outbox/{check_job_id(job_id)}.ndjson"

    def outbox_dir(self) -> str:
        """Return `outbox/`."""
        return f"{self.home}/outbox"

    def lock_path(self, name: str) -> str:
        """Return `locks/<name>.lock`: a job id for its record, `queue`, or a component's own name."""
        return f"{self.home}/locks/{name}.lock"

    def queue_path(self, *parts: str) -> str:
        """Return a path below `queue/`, which holds the index and the marks of changes."""
        return os.path.join(self.home, "queue", *parts)

    def agent_key_path(self, agent: str) -> str:
        """Return `keys/agents/<agent>`: the key of an agent on another host."""
        return os.path.join(self.home, "keys", "agents", check_agent(agent))

    @property
    def home_key_path(self) -> str:
        """Return `keys/home.key`: what the home itself signs with."""
        return os.path.join(self.home, "keys", "home.key")

    def session_path(self, *parts: str) -> str:
        """Return a path below `sessions/`: a folder for each session in which agents live."""
        return os.path.join(self.home, "sessions", *parts)

    @property
    def sessions_archive_path(self) -> str:
        """Return `agent-sessions.yaml`: the sessions that have ended, for people."""
        return os.path.join(self.home, "agent-sessions.yaml")

    def wake_path(self, *parts: str) -> str:
        """Return a path below `wake/`: files that are touched to wake who waits."""
        return os.path.join(self.home, "wake", *parts)

    @property
    def journal(self) -> Path:
        """Return the journal of the registry process."""
        return _path(self.home, "journal")

    @property
    def certs(self) -> Path:
        """Return the certificate authority."""
        return _path(self.home, "certs")

    @property
    def broker(self) -> Path:
        """Return the broker's configuration, access list, password file and data."""
        return _path(self.home, "broker")

    @property
    def passwords(self) -> Path:
        """Return the roles' passwords, one file each."""
        return _path(self.home, "passwords")

    @property
    def metrics(self) -> Path:
        """Return tables, checkpoint, history and logs of the metrics."""
        return _path(self.home, "metrics")

    @property
    def dashboard(self) -> Path:
        """Return the addresses and tokens of pages while they run."""
        return _path(self.home, "dashboard")


def _path(*parts: str) -> Path:
    from pathlib import Path  # noqa: PLC0415 - an import more at the start of `publish_event`

    return Path(*parts)
