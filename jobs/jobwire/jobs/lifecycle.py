"""The job's life as a table: which state follows which, and which event may be said in which state."""

from enum import StrEnum

from jobwire.core.errors import TransitionError


class Status(StrEnum):
    """States of SPEC section 4."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    ERROR = "error"
    CANCELLED = "cancelled"


TERMINAL_STATUSES = frozenset({Status.COMPLETED, Status.ERROR, Status.CANCELLED})

# (from, to) -> what causes it. docs/lifecycle.md is drawn from this table.
TRANSITIONS: dict[tuple[Status, Status], str] = {
    (Status.PENDING, Status.RUNNING): "pick, claim, or a started event",
    (Status.PENDING, Status.CANCELLED): "cancel, or the pending timeout",
    (Status.RUNNING, Status.COMPLETED): "a completed event",
    (Status.RUNNING, Status.ERROR): "an error event, the idle or wall timeout, or too many attempts",
    (Status.RUNNING, Status.CANCELLED): "cancel",
    (
        Status.RUNNING,
        Status.PENDING,
    ): "the lease ran out or was released, or a person retries: next attempt, new token",
}

# (state, event) -> state after it. What is not here is illegal.
EVENT_TRANSITIONS: dict[tuple[Status, str], Status] = {
    (Status.PENDING, "started"): Status.RUNNING,
    (Status.RUNNING, "started"): Status.RUNNING,
    (Status.RUNNING, "progress"): Status.RUNNING,
    (Status.RUNNING, "permission_required"): Status.RUNNING,
    (Status.RUNNING, "completed"): Status.COMPLETED,
    (Status.RUNNING, "error"): Status.ERROR,
}


def check_transition(before: Status, after: Status) -> None:
    """Raise TransitionError, naming both states, unless the table allows the change."""
    if (before, after) not in TRANSITIONS:
        raise TransitionError(
            f"a job cannot go from {before} to {after}",
            hint=_way_on(before),
            before=str(before),
            after=str(after),
        )


def event_allowed(status: Status, event: str, *, first_of_attempt: bool | None) -> bool:
    """Tell whether `event` may follow in `status`.

    `first_of_attempt`: True where no event of this attempt was seen and none is missing (then only
    `started` fits), False where one was seen (then `started` does not), None where that is unknown.
    """
    if (status, event) not in EVENT_TRANSITIONS:
        return False
    return first_of_attempt is None or (event == "started") == first_of_attempt


def _way_on(status: Status) -> str:
    if status in TERMINAL_STATUSES:
        return (
            "a finished job stays as it is: register a new one for further work (jobwire registry register)"
        )
    names = [str(after) for before, after in TRANSITIONS if before == status]
    return f"from {status} it can become {' or '.join(names)}"
