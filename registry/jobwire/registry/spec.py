"""What a delegator says of a new job, and what of it is refused."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from jobwire.core.errors import InvalidInputError
from jobwire.core.record import Priority, Timeouts
from jobwire.core.settings import resolve_broker

MAX_TITLE = 200
MAX_NAME = 128
MAX_KEY = 256
# With the name of who released it, it becomes the record's detail (at most 1,024 characters).
MAX_REASON = 512
# Every writer of the record carries them along: bulk belongs into files that they name.
MAX_INSTRUCTIONS = 256 * 1024
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class JobSpec(NamedTuple):
    """A new job. `unique_session` asks for at most one unfinished job addressed to `agent_session`."""

    title: str = ""
    instructions: str = ""
    agent_session: str | None = None
    priority: Priority = Priority.NORMAL
    timeouts: Timeouts = Timeouts()
    broker: Mapping[str, str | int] = {}  # never changed in place
    max_attempts: int | None = None
    idempotency_key: str | None = None
    unique_session: bool = False


def check_spec(spec: JobSpec) -> None:
    """Raise InvalidInputError naming the first field that is not acceptable."""
    check_line("title", spec.title, MAX_TITLE, empty=True)
    check_line("session", spec.agent_session, MAX_NAME)
    check_line("idempotency key", spec.idempotency_key, MAX_KEY)
    _check_text("instructions", spec.instructions, MAX_INSTRUCTIONS)
    if "\0" in spec.instructions:
        raise InvalidInputError("the instructions hold a NUL character", hint="is it a text file?")
    if spec.unique_session and spec.agent_session is None:
        raise InvalidInputError("a unique session needs its name", hint="add --agent-session NAME")
    if spec.max_attempts is not None and spec.max_attempts < 1:
        raise InvalidInputError(f"max_attempts is {spec.max_attempts}", hint="at least 1")
    check_timeouts(spec.timeouts)
    check_broker(spec.broker)


def check_line(field: str, value: str | None, limit: int, *, empty: bool = False) -> None:
    """Refuse what is not one printable line of at most `limit` characters."""
    if value is None:
        return
    _check_text(field, value, limit)
    if _CONTROL.search(value) or not (value or empty):
        raise InvalidInputError(
            f"the {field} is not one printable line", hint="leave out line breaks and control characters"
        )


def check_reason(reason: str) -> None:
    """Refuse a reason that is not one printable line of at most MAX_REASON characters."""
    check_line("reason", reason, MAX_REASON, empty=True)


def check_timeouts(timeouts: Timeouts) -> None:
    """Refuse limits that are no positive, finite number of seconds."""
    for name, value in timeouts._asdict().items():
        if value is not None and not 0 < value < float("inf"):
            raise InvalidInputError(f"{name} is {value}", hint="a positive number of seconds")


def check_broker(broker: Mapping[str, str | int]) -> None:
    """Refuse unknown or unusable broker settings, and a password in clear."""
    if "password" in broker:
        raise InvalidInputError(
            "a password does not go into a job's record",
            hint="name a 0600 file with password_file=PATH",
        )
    resolve_broker([("the job's broker settings", broker)])


def _check_text(field: str, value: str, limit: int) -> None:
    if len(value) > limit:
        raise InvalidInputError(
            f"the {field} has {len(value)} characters, {limit} are allowed",
            hint="put it into a file and name that",
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"the {field} is not valid UTF-8") from error
