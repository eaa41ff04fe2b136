"""An error of the model's service: which are tried again by the user's policy, when, and how often. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.clock import epoch
from jobwire.hooks.signs import last_line
from jobwire.jobs.request_form import RequestKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobwire.hooks.policy import Policy
    from jobwire.hooks.signs import Said
    from jobwire.jobs.requests import Request

# What may be over in a while; a key that is refused is not.
UNKNOWN = "unknown"
RETRYABLE = frozenset({"rate_limit", "overloaded", "server_error", UNKNOWN})
MAX_SECONDS = 900.0
# Errors further back say nothing about this one.
WINDOW_SECONDS = 6 * 3600.0


class Retry(NamedTuple):
    """The agent is told to go on after so many seconds, for the `number`th of `limit` times."""

    number: int
    limit: int
    seconds: float


def next_retry(error: str, requests: Iterable[Request], policy: Policy, now: float) -> Retry | None:
    """Return the next try; None where a person decides. `requests`: all of the job, its errors among them."""
    if error not in RETRYABLE:
        return None
    earlier = sum(_counts(one, now) for one in requests)
    if earlier >= policy.retries:
        return None
    seconds = min(policy.retry_seconds * 2.0**earlier, MAX_SECONDS)
    return Retry(earlier + 1, policy.retries, seconds)


def failure_of(said: Said) -> str:
    """Return what happened, in a line."""
    return (
        f"the model's service failed ({said.kind or UNKNOWN}): {last_line(said.text) or 'it did not say why'}"
    )


def _counts(one: Request, now: float) -> bool:
    return one.kind is RequestKind.ERROR and now - epoch(one.asked_at) < WINDOW_SECONDS
