"""Hands a kept event over to the registry process of its home, which has a connection to the broker open.

A call (`delivery.call`) of one of two names, in JSON:

    given    {"job": ID, "seq": N, "expiry": SECONDS | null, "broker": NAME | null, ...}
    DELIVER  {"delivered": true, "confirmed": true}     when the broker and the record have the event
             {"delivered": false, "no_broker": ADDRESS} where the process finds none
             {"delivered": false}                       where it cannot: the worker does it, or tells why
    MENTION  the event is sent, and nobody waits for that

The event is on the disk before, so whatever goes wrong here costs time and nothing else.
"""

import contextlib
import json
from collections.abc import Mapping

from jobwire.core.clock import Clock
from jobwire.core.errors import UnreachableError
from jobwire.delivery.call import LostCallError, call
from jobwire.delivery.outbox import Delivery

DELIVER, MENTION = "deliver", "mention"
# A process that is alive answers in a millisecond; one that is stopped (SIGSTOP) never does.
TAKEN_SECONDS = 1.0
# As long as a PUBACK and the record may take; the process itself gives up before that.
ANSWER_SECONDS = 9.0
# What did not answer is left alone for so long by whoever speaks again and again.
_QUIET_SECONDS = 30.0


class HandOver:
    """A worker's way to the registry process of its home.

    `wishes` are the broker settings that the worker brings along: a process that uses others does not send
    for it. `expiry_seconds` is for retained terminal events; None leaves it to the process, 0 is never.
    """

    def __init__(
        self, home: str, *, wishes: Mapping[str, object], expiry_seconds: int | None, clock: Clock
    ) -> None:
        self._home = home
        self._wishes = dict(wishes)
        self._expiry_seconds = expiry_seconds
        self._clock = clock
        self._not_before = 0.0

    def deliver(self, job_id: str, seq: int) -> Delivery | None:
        """Have everything up to `seq` sent and confirmed. None where the worker has to send by itself.

        Blocks for TAKEN_SECONDS where the process stands still, for ANSWER_SECONDS where it hangs later.
        """
        began = self._clock.monotonic()
        if began < self._not_before:
            return None
        answer = None
        with contextlib.suppress(LostCallError, ValueError):
            answer = json.loads(self._call(DELIVER, job_id, seq, ANSWER_SECONDS) or b"null")
        if not isinstance(answer, dict):
            now = self._clock.monotonic()
            if now - began >= TAKEN_SECONDS:
                self._not_before = now + _QUIET_SECONDS
            return None
        if answer.get("delivered") is True:
            return Delivery(delivered=True, confirmed=answer.get("confirmed") or None)
        address = answer.get("no_broker")
        if address is None:
            return None
        failure = UnreachableError(
            f"no broker answered at {address}: the registry process has no connection to it",
            hint="check that the broker runs and that address and port are right",
            address=address,
        )
        return Delivery(delivered=False, failure=failure)

    def mention(self, job_id: str, seq: int) -> None:
        """Have everything up to `seq` sent, where a process takes that; waits for nothing else."""
        with contextlib.suppress(LostCallError):  # the job's next event has it sent
            self._call(MENTION, job_id, seq, 0.0)

    def _call(self, name: str, job_id: str, seq: int, answer_seconds: float) -> bytes | None:
        request = {"job": job_id, "seq": seq, "expiry": self._expiry_seconds, **self._wishes}
        given = json.dumps(request).encode()
        return call(self._home, name, {}, given, answer_seconds=answer_seconds, taken_seconds=TAKEN_SECONDS)
