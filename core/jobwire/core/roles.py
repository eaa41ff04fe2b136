"""The accounts that come with a home: who may do what stands in docs/security.md."""

from enum import StrEnum


class Role(StrEnum):
    """A user name at the broker; also the name of its table in jobwire.toml and of its password's file."""

    HERMES = "hermes"
    WORKER = "claude-worker"
    REGISTRY = "registry"
    METRICS = "metrics"
    DASHBOARD = "dashboard"
