"""What a new job may say."""

import pytest

from jobwire.core.errors import InvalidInputError
from jobwire.jobs.record import Timeouts
from jobwire.registry.spec import JobSpec, check_spec


@pytest.mark.parametrize(
    "spec",
    [
        JobSpec(),
        JobSpec(title="Ünïcode 日本", instructions="two\nlines\n", agent_session="tmux:1.0"),
        JobSpec(broker={"broker": "127.0.0.1", "port": 1883, "tls": "off"}),
        JobSpec(agent_session="a", unique_session=True, max_attempts=1),
    ],
)
def test_acceptable(spec: JobSpec) -> None:
    """Ordinary jobs pass."""
    check_spec(spec)


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (JobSpec(title="a\nb"), "title"),
        (JobSpec(title="\x1b[31m"), "title"),
        (JobSpec(title="x" * 201), "title"),
        (JobSpec(title="\udcff"), "title"),
        (JobSpec(agent_session=""), "session"),
        (JobSpec(idempotency_key="x" * 257), "idempotency key"),
        (JobSpec(instructions="x" * (256 * 1024 + 1)), "instructions"),
        (JobSpec(instructions="a\0b"), "instructions"),
        (JobSpec(unique_session=True), "unique session"),
        (JobSpec(max_attempts=0), "max_attempts"),
        (JobSpec(timeouts=Timeouts(wall_seconds=0)), "wall_seconds"),
        (JobSpec(timeouts=Timeouts(idle_seconds=float("nan"))), "idle_seconds"),
        (JobSpec(timeouts=Timeouts(idle_seconds=float("inf"))), "idle_seconds"),
        (JobSpec(broker={"password": "x"}), "password"),
        (JobSpec(broker={"colour": "x"}), "colour"),
        (JobSpec(broker={"port": 70000}), "port"),
    ],
)
def test_refused(spec: JobSpec, named: str) -> None:
    """What is not acceptable is refused with the name of its field."""
    with pytest.raises(InvalidInputError, match=named):
        check_spec(spec)
