"""A scripted fleet: what a journal holds after a busy hour, from a seed.

For tests, fault rounds and benchmarks. The same seed gives the same messages: jobs of several
attempts that start, wait for permission, fail, finish or stay open, side by side; among them
messages of every kind that admission refuses, clocks that are wrong by hours, and hostile text.
"""

import hashlib
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from jobwire.core.clock import utc_timestamp
from jobwire.core.topics import Topics
from jobwire.jobs.event import compose, encode_signed
from jobwire.journal.entry import Entry

START_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
_HOSTILE = (
    "\u0000\u0001\u001b[31mred\u0007",
    "🚀🧵👩‍👩‍👧‍👦 семь 七",
    "'; DROP TABLE windows; --",
    'line\nbreak\r\n\ttab \u2028 \\u0000 "quoted"',
    "x" * 1024,
)
_REFUSED = ("malformed", "unsigned", "bad_signature", "unknown_job", "oversize", "late", "after_terminal")


class Mix(NamedTuple):
    """How often what happens, as chances of one step."""

    refused: float = 0.02
    repeated: float = 0.01
    skewed: float = 0.02
    hostile: float = 0.05


CLEAN = Mix(0.0, 0.0, 0.0, 0.0)


class Rehearsal:
    """A finite stream of journal entries; iterate once or many times, it is the same."""

    def __init__(
        self,
        *,
        seed: int,
        jobs: int,
        events_per_job: int = 10,
        active: int = 50,
        step_us: int = 20_000,
        mix: Mix | None = None,
        start_us: int = START_US,
        topics: Topics | None = None,
        verdicts: bool = True,
    ) -> None:
        """`step_us` is the mean time between two messages; without `verdicts` all are `unverified`."""
        self._seed = seed
        self._jobs = jobs
        self._events_per_job = events_per_job
        self._active = active
        self._step_us = step_us
        self._mix = mix if mix is not None else Mix()
        self._start_us = start_us
        self._topics = topics if topics is not None else Topics()
        self._verdicts = verdicts

    def job_ids(self) -> list[str]:
        """Return every job's id."""
        return [f"{(self._seed * 1_000_003 + number) % (1 << 32):08x}" for number in range(self._jobs)]

    def keys(self) -> dict[str, list[str]]:
        """Return each job's tokens, as a keys file holds them."""
        return {job_id: [_token(job_id)] for job_id in self.job_ids()}

    def __iter__(self) -> Iterator[Entry]:
        # Not for secrets: a script must repeat.
        random = Random(self._seed)  # noqa: S311
        waiting = self.job_ids()
        running: list[_RehearsedJob] = []
        now_us = self._start_us
        sent: list[Entry] = []
        while waiting or running:
            while waiting and len(running) < self._active:
                running.append(
                    _RehearsedJob(waiting.pop(0), random.randint(2, 2 * self._events_per_job), random)
                )
            now_us += random.randint(0, 2 * self._step_us)
            draw = random.random()
            if draw < self._mix.refused:
                yield self._stored(self._refused(random.choice(running).job_id, now_us, random))
            elif sent and draw < self._mix.refused + self._mix.repeated:
                again = random.choice(sent)
                yield self._stored(
                    again._replace(received_at_us=now_us, verdict="duplicate", redelivered=True)
                )
            else:
                job = random.choice(running)
                entry = self._said(job, now_us, random)
                sent = [*sent[-50:], entry]
                yield self._stored(entry)
                if job.over:
                    running.remove(job)

    def _stored(self, entry: Entry) -> Entry:
        return entry if self._verdicts else entry._replace(verdict="unverified")

    def _said(self, job: "_RehearsedJob", now_us: int, random: Random) -> Entry:
        event = job.next_event(random)
        delay_us = random.randint(500, 40_000)
        if random.random() < self._mix.skewed:
            delay_us = random.choice((-7_200_000_000, 10_800_000_000))
        detail = f"step {job.seq} of {job.job_id}"
        if random.random() < self._mix.hostile:
            detail = random.choice(_HOSTILE)
        signed = encode_signed(
            compose(
                seq=job.seq,
                job_id=job.job_id,
                event=event,
                timestamp=utc_timestamp((now_us - delay_us) / 1e6),
                detail=detail,
                data={"files": job.seq * 3},
            ),
            _token(job.job_id),
        )
        return Entry(
            now_us, self._topics.events(job.job_id), signed, event in {"completed", "error"}, "accepted"
        )

    def _refused(self, job_id: str, now_us: int, random: Random) -> Entry:
        reason = random.choice(_REFUSED)
        payload = {
            "malformed": b'{"schema_version":1,\x00',
            "oversize": b"{" + b" " * (64 << 10) + b"}",
        }.get(reason, b'{"seq":1,"unknown_field":[{}]}')
        return Entry(now_us, self._topics.events(job_id), payload, False, reason)


class _RehearsedJob:
    """One job's course: attempts, waits, an end (or none)."""

    def __init__(self, job_id: str, length: int, random: Random) -> None:
        self.job_id = job_id
        self.seq = 0
        self._left = length
        self._stays_open = random.random() < 0.1  # noqa: PLR2004 - a tenth never ends
        self._restarts_at = random.randint(2, length) if random.random() < 0.15 else 0  # noqa: PLR2004

    @property
    def over(self) -> bool:
        return self._left == 0

    def next_event(self, random: Random) -> str:
        self.seq += 1
        self._left -= 1
        if self.seq in (1, self._restarts_at):
            return "started"
        if self._left == 0 and not self._stays_open:
            return random.choice(("completed", "completed", "completed", "error"))
        return "permission_required" if random.random() < 0.1 else "progress"  # noqa: PLR2004


def _token(job_id: str) -> str:
    return hashlib.sha256(b"rehearsal " + job_id.encode()).hexdigest()
