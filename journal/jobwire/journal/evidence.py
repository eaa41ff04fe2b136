"""What happens to rejected messages: kept as evidence up to a budget, counted always, logged sparingly.

A flood of forgeries must fill neither disk nor log. Each reason has its own budget, so a flood of one
kind does not hide a single case of another. What exceeds the budget is acknowledged and counted; once
a minute the counts are journaled as one entry with the verdict `suppressed` on the topic
`$jobwire/suppressed` (no subscription of ours can bring such a topic), so that figures computed from
the journal stay right.
"""

import json
import logging
from collections import Counter, defaultdict

from jobwire.core.clock import Clock
from jobwire.core.token_bucket import TokenBucket
from jobwire.journal.admission import Judged
from jobwire.journal.entry import Entry

SUPPRESSED = "suppressed"
SUPPRESSED_TOPIC = "$jobwire/suppressed"
# 13 reasons at 64 KiB a minute are 1.2 GB a day at the very worst; a burst of 1 MiB holds some 2,000
# typical messages of a kind in full.
BYTES_PER_MINUTE = 64 << 10
BURST_BYTES = 1 << 20
# An event has at most 64 KiB; the beginning of something larger shows what it was.
OVERSIZE_EVIDENCE_BYTES = 1024
_MINUTE_SECONDS = 60.0
_LOG_BURST = 5
_LOG_PER_SECOND = 0.1
# Fixed cost of an entry on the disk, so that empty payloads are not free.
_ENTRY_BYTES = 64
_log = logging.getLogger(__name__)


class Evidence:
    """Decides about rejected messages; from one thread."""

    def __init__(
        self,
        *,
        clock: Clock,
        bytes_per_minute: float = BYTES_PER_MINUTE,
        burst_bytes: float = BURST_BYTES,
    ) -> None:
        self._clock = clock
        rate = bytes_per_minute / _MINUTE_SECONDS
        self._budgets = defaultdict[str, TokenBucket](lambda: TokenBucket(burst=burst_bytes, per_second=rate))
        self._lines = defaultdict[str, TokenBucket](
            lambda: TokenBucket(burst=_LOG_BURST, per_second=_LOG_PER_SECOND)
        )
        self._unlogged: Counter[str] = Counter()
        self._untold: Counter[str] = Counter()
        self._told_at = clock.monotonic()
        self.suppressed: Counter[str] = Counter()

    def keeps(self, entry: Entry) -> bool:
        """Tell whether the rejected entry goes into the journal; count it where it does not."""
        size = len(entry.payload) + len(entry.topic) + _ENTRY_BYTES
        if self._budgets[entry.verdict].take(size, self._clock.monotonic()):
            return True
        self.suppressed[entry.verdict] += 1
        self._untold[entry.verdict] += 1
        return False

    def log(self, entry: Entry, judged: Judged) -> None:
        """Log the rejection, or count it for the next line of the same reason."""
        if not self._lines[judged.verdict].take(1, self._clock.monotonic()):
            self._unlogged[judged.verdict] += 1
            return
        more = self._unlogged.pop(judged.verdict, 0)
        # %r: the topic comes from outside and may hold what a terminal obeys.
        _log.warning(
            "rejected %s on %r: %s%s",
            judged.verdict,
            entry.topic[:120],
            judged.why,
            f" (and {more} more since the last line)" if more else "",
        )

    def summary(self, now_us: int, *, final: bool = False) -> Entry | None:
        """Return the entry that tells what was suppressed, once a minute and at the end; else None."""
        now = self._clock.monotonic()
        if not self._untold or (not final and now - self._told_at < _MINUTE_SECONDS):
            return None
        self._told_at = now
        payload = json.dumps(dict(sorted(self._untold.items()))).encode()
        self._untold.clear()
        return Entry(now_us, SUPPRESSED_TOPIC, payload, False, SUPPRESSED)
