"""Topic naming under one root, and MQTT filter matching."""

import re
from typing import NamedTuple

from jobwire.core.errors import InvalidInputError

DEFAULT_ROOT = "python/mqtt/jobs"
JOB_ID_PATTERN = "^[0-9a-f]{8}$"
_JOB_ID = re.compile(r"[0-9a-f]{8}")
# What may become part of a topic, a file name or a certificate subject.
_IDENTITY = re.compile(r"[A-Za-z0-9_-]{1,64}")
# What takes part by name and outlives its jobs; never like a job's id, which it could be mistaken for.
_AGENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_AGENT_MARK = "agent."
_AGENT_KINDS = frozenset({"inbox", "outbox", "presence"})
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


def check_agent(name: str) -> str:
    """Return `name` if an agent may have it, else raise InvalidInputError."""
    if not _AGENT.fullmatch(name) or is_job_id(name):
        raise InvalidInputError(
            f"not an agent's name: {name[:80]!r}",
            hint="1 to 64 of A-Z a-z 0-9 _ . -, the first no . or -, and not 8 hex digits as a job has",
            name=name,
        )
    return name


def agent_identity(name: str) -> str:
    """Return what an agent is called on the wire (user name, CN, client id, topic level): `agent.NAME`.

    So no agent can be named like a role or a job.
    """
    return _AGENT_MARK + check_agent(name)


def check_wire_name(name: str) -> str:
    """Return `name` if a client may be called so at a broker: a role, a user, a job, or `agent.NAME`."""
    return agent_identity(name[len(_AGENT_MARK) :]) if name.startswith(_AGENT_MARK) else check_identity(name)


class AgentAddress(NamedTuple):
    """What a concrete topic points at: one agent's `inbox`, `outbox` or `presence`."""

    agent: str
    kind: str


class TopicAddress(NamedTuple):
    """What a concrete topic points at: one job's `events`, `state` or, in a journal only, `facts`."""

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
        # Beside the jobs where the root ends in their name, as it does by default; else below the root.
        self.agents_root = f"{root[:-4]}agents" if f"/{root}".endswith("/jobs") else f"{root}/agents"

    def events(self, job_id: str) -> str:
        """Return the topic of the job's events; `job_id` may be `+` for a filter."""
        return f"{self._prefix}{job_id}/events"

    def state(self, job_id: str) -> str:
        """Return the topic of the job's retained state; `job_id` may be `+` for a filter."""
        return f"{self._prefix}{job_id}/state"

    def answer(self, job_id: str) -> str:
        """Return the topic of the job's retained answers."""
        return f"{self._prefix}{job_id}/answer"

    def agent(self, name: str, kind: str) -> str:
        """Return the topic of an agent's inbox, outbox or presence; `name` may be `+` for a filter."""
        return f"{self.agents_root}/{name if name == '+' else agent_identity(name)}/{kind}"

    def parse_agent(self, topic: str) -> AgentAddress | None:
        """Return the address of an agent's concrete topic, or None if it is none of ours."""
        prefix = f"{self.agents_root}/{_AGENT_MARK}"
        name, _, kind = topic.removeprefix(prefix).rpartition("/")
        if not topic.startswith(prefix) or kind not in _AGENT_KINDS:
            return None
        return AgentAddress(name, kind) if _AGENT.fullmatch(name) and not is_job_id(name) else None

    def facts(self, job_id: str) -> str:
        """Return the topic of the registry's facts about the job in a journal; it is not on the wire."""
        return f"{self._prefix}{job_id}/facts"

    def parse(self, topic: str) -> TopicAddress | None:
        """Return the address of a concrete topic, or None if it is not one of ours."""
        if not topic.startswith(self._prefix):
            return None
        job_id, separator, kind = topic[len(self._prefix) :].partition("/")
        if not separator or kind not in {"events", "state", "facts"} or not _JOB_ID.fullmatch(job_id):
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
