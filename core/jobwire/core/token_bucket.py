"""A token bucket: so much at once, so much a second afterwards."""


class TokenBucket:
    """Holds up to `burst` tokens and gains `per_second`; the caller gives the monotonic time."""

    __slots__ = ("_at", "_burst", "_level", "_per_second")

    def __init__(self, *, burst: float, per_second: float) -> None:
        self._burst = burst
        self._per_second = per_second
        self._level = burst
        self._at = float("-inf")

    def take(self, amount: float, now: float) -> bool:
        """Take `amount` if it is there, else leave everything and return False."""
        if now > self._at:
            gained = (now - self._at) * self._per_second
            self._level = min(self._burst, self._level + gained)
            self._at = now
        if amount > self._level:
            return False
        self._level -= amount
        return True
