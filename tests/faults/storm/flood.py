"""A flood of forged and malformed messages, sent as a process of its own.

flood.py --home DIR --seconds S --rate PER_MINUTE --seed N --genuine FILE --job ID [--job ID ...]

Speaks as the workers' account, as a worker gone bad would. FILE holds a genuine event of the first job,
which is sent again and again. Prints how many messages of each expected verdict the broker took.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from jobwire.core.clock import utc_timestamp
from jobwire.core.topics import Topics
from jobwire.jobs.admission import Reason
from jobwire.jobs.event import MAX_PAYLOAD, compose, encode_signed
from jobwire.testing.raw_mqtt import PINGREQ, PINGRESP, RawClient, client_context
from jobwire.transport import load_settings

_ROLE = "claude-worker"
# Below the broker's limit of messages in flight.
_BURST = 20
_OVERSIZE_ONE_IN = 500
_MALFORMED = (b"", b"{", b"not json", b'{"seq":NaN}', b'{"seq":1,"seq":2}', b"\xff\xfe", b"[1]", b"[" * 5000)
_KINDS = (
    Reason.MALFORMED,
    Reason.SCHEMA_VERSION,
    Reason.INVALID_FIELD,
    Reason.TOPIC_MISMATCH,
    Reason.UNKNOWN_JOB,
    Reason.UNSIGNED,
    Reason.BAD_SIGNATURE,
    Reason.DUPLICATE,
)


class Forgery(NamedTuple):
    """One bad message and what admission has to say about it."""

    topic: str
    payload: bytes
    reason: Reason


class Forger:
    """Makes bad messages about real jobs; `genuine` is an accepted event of the first of them."""

    def __init__(self, random: Random, topics: Topics, jobs: Sequence[str], genuine: bytes) -> None:
        self._random = random
        self._topics = topics
        self._jobs = jobs
        self._genuine = genuine

    def next(self) -> Forgery:
        """Return the next one."""
        job = self._random.choice(self._jobs)
        topic = self._topics.events(job)
        if self._random.randrange(_OVERSIZE_ONE_IN) == 0:
            return Forgery(topic, b"x" * (MAX_PAYLOAD + 1), Reason.OVERSIZE)
        reason = self._random.choice(_KINDS)
        if reason is Reason.MALFORMED:
            return Forgery(topic, self._random.choice(_MALFORMED), reason)
        if reason is Reason.DUPLICATE:
            return Forgery(self._topics.events(self._jobs[0]), self._genuine, reason)
        if reason is Reason.UNKNOWN_JOB:
            job = f"ffff{self._random.randrange(1 << 16):04x}"
            topic = self._topics.events(job)
        return Forgery(topic, self._spoiled(job, reason), reason)

    def _spoiled(self, job: str, reason: Reason) -> bytes:
        seq = self._random.randrange(1, 10_000)
        event = compose(
            seq=seq, job_id=job, event="progress", timestamp=utc_timestamp(0.0), detail="", data={"step": seq}
        )
        body = json.loads(encode_signed(event, self._random.randbytes(32).hex()))
        if reason is Reason.SCHEMA_VERSION:
            body["schema_version"] = 2
        elif reason is Reason.INVALID_FIELD:
            body["event"] = "finished"
        elif reason is Reason.TOPIC_MISMATCH:
            body["job_id"] = "00000000"
        elif reason is Reason.UNSIGNED:
            del body["data"]["hmac_sig"]
        return json.dumps(body).encode()


def main() -> int:
    """Send the flood and print what was sent."""
    args = _parser().parse_args()
    settings = load_settings(home=args.home, role=_ROLE, command_line={}, record={}, environ={})
    forger = Forger(
        Random(args.seed),  # noqa: S311 - it must be repeatable, not secret
        Topics(settings.topic_root),
        args.job,
        args.genuine.read_bytes(),
    )
    context = client_context(Path(str(settings.ca_certs)))
    with RawClient(settings.host, settings.port, context) as client:
        password = Path(str(settings.password_file)).read_text().strip()
        client.connect("flood", username=_ROLE, password=password)
        sent = _flood(client, forger, seconds=args.seconds, per_second=args.rate / 60)
        client.disconnect()
    sys.stdout.write(json.dumps({str(reason): count for reason, count in sent.items()}) + "\n")
    return 0


def _flood(client: RawClient, forger: Forger, *, seconds: float, per_second: float) -> Counter[Reason]:
    sent: Counter[Reason] = Counter()
    begun = time.monotonic()
    while (elapsed := time.monotonic() - begun) < seconds:
        if sent.total() >= elapsed * per_second:
            time.sleep(_BURST / per_second)
            continue
        for _ in range(_BURST):
            forgery = forger.next()
            client.publish(forgery.topic, forgery.payload, wait=False)
            sent[forgery.reason] += 1
        # The answer to a ping comes after the acknowledgements of everything before it.
        client.send(PINGREQ)
        client.expect(PINGRESP)
    return sent


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--job", action="append", required=True)
    parser.add_argument("--genuine", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--rate", type=float, default=50_000.0)
    parser.add_argument("--seed", type=int, default=1)
    return parser


if __name__ == "__main__":
    sys.exit(main())
