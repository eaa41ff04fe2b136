"""Waiting for facts instead of for time."""

import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")
_STEP_SECONDS = 0.005


def wait_for(
    predicate: Callable[[], _T],
    *,
    deadline_seconds: float = 60.0,
    what: str = "",
    step_seconds: float = _STEP_SECONDS,
) -> _T:
    """Call `predicate` every `step_seconds` until it returns something true, and return that.

    A question that costs milliseconds is to be asked less often, or it slows down what it waits for.
    Blocks at most `deadline_seconds`, then raises AssertionError that names `what` and the last value.
    """
    deadline = time.monotonic() + deadline_seconds
    while not (value := predicate()):
        if time.monotonic() >= deadline:
            raise AssertionError(
                f"{what or 'the awaited fact'} did not come within {deadline_seconds} s; last seen: {value!r}"
            )
        time.sleep(step_seconds)
    return value
