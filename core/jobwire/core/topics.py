"""Topic naming under one root, and MQTT filter matching."""

import re
from typing import NamedTuple

from jobwire.core.errors import InvalidInputError

DEFAULT_ROOT = "python/mqtt/jobs"
JOB_ID_PATTERN = "^[0-9a-f]{8}$"
_JOB_ID = re.compile(r"[0-9a-f]{8}")
# What may become part of a topic, a file name or a certificate subject.
_IDENTITY = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LEVEL_FORBIDDEN = re.compile(r"[+#\x00-\x1f\x7f-\x9f$%]")


def is_job_id(text: str) -> bool:
    """Tell whether `text` is a job's id."""
    return _JOB_ID.fullmatch(text) is not None


def check_job_id(job_id: str) -> str:
    """Return `job_id` if it is 8 lower-case hex characters, else raise InvalidInputError."""
    if not _JOB_ID.fullmatch(job_id):
        raise InvalidInputError(
            f"not a job id: {job_id!r}",
            hint="a job id is 8 lower-case hex characters; `jobwire list` shows them",
            job_id=job_id,
        )
    return job_id


def check_identity(name: str) -> str:
    """Return `name` if it is safe as user name, topic level and file name."""
    if not _IDENTITY.fullmatch(name):
        raise InvalidInputError(
            f"not a usable name: {name!r}", hint="use 1 to 64 of A-Z a-z 0-9 _ -", name=name
        )
    return name


class TopicAddress(NamedTuple):
    """What a concrete topic points at: one job's `events` or `state`."""

    job_id: str
    kind: str


class Topics:
    """Builds and reads topics below one root."""

    def __init__(self, root: str = DEFAULT_ROOT) -> None:
        if not root or root.startswith("/") or root.endswith("/") or _LEVEL_FORBIDDEN.search(root):
            raise InvalidInputError(
                f"not a topic root: {root!r}",
                hint="levels joined by /, without + # $ % or control characters",
            )
        self.root = root
        self._prefix = root + "/"

    def events(self, job_id: str) -> str:
        """Return the topic of the job's events; `job_id` may be `+` for a filter."""
        return f"{self._prefix}{job_id}/events"

    def state(self, job_id: str) -> str:
        """Return the topic of the job's retained state; `job_id` may be `+` for a filter."""
        return f"{self._prefix}{job_id}/state"

    def parse(self, topic: str) -> TopicAddress | None:
        """Return the address of a concrete topic, or None if it is not one of ours."""
        if not topic.startswith(self._prefix):
            return None
        job_id, separator, kind = topic[len(self._prefix) :].partition("/")
        if not separator or kind not in {"events", "state"} or not _JOB_ID.fullmatch(job_id):
            return None
        return TopicAddress(job_id, kind)


def filter_matches(topic_filter: str, topic: str) -> bool:
    """Tell whether `topic` matches `topic_filter` (MQTT 3.1.1 section 4.7).

    `topic` may be a filter itself: does every topic that it stands for match? `$`-topics match no filter
    that starts with a wildcard (4.7.2-1).
    """
    if topic.startswith("$") and topic_filter[:1] in {"+", "#"}:
        return False
    wanted, levels = topic_filter.split("/"), topic.split("/")
    for index, level in enumerate(wanted):
        if level == "#":
            return True
        # "a/#" also matches "a" itself (4.7.1-2): no other filter stands for as much as a #.
        if index >= len(levels) or levels[index] == "#" or (level not in {"+", levels[index]}):
            return False
    return len(wanted) == len(levels)
