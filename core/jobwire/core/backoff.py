"""The retry schedule: exponential, capped, with jitter."""

BASE_SECONDS = 0.5
CAP_SECONDS = 8.0


def retry_delay(
    attempt: int, jitter: float, *, base: float = BASE_SECONDS, cap: float = CAP_SECONDS
) -> float:
    """Return seconds to wait after failed try number `attempt` (from 1).

    min(base * 2^(attempt-1), cap), reduced by up to half: `jitter` in [0, 1) is the caller's random
    number, so that a fleet cut off together does not come back together.
    """
    exponent = min(attempt - 1, 30)
    return float(min(base * 2**exponent, cap)) * (1.0 - jitter / 2)
