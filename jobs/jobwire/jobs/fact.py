"""A fact: what the registry decided about a job, as an entry of the journal beside the workers' events.

A fact is told apart from a worker's message by two things that no worker has: its topic, which no
recorder subscribes to, and the verdict FACT, which no recorder gives to what came over the wire.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, NamedTuple

from jobwire.core.bounds import MAX_NAME, MAX_REASON
from jobwire.core.canonical import JsonShapeError, canonical_json
from jobwire.core.errors import InvalidInputError
from jobwire.core.fields import JOB_ID, STAMP, constant, count, one_of, read_fields, rules_of, text
from jobwire.core.strict_json import decode_object
from jobwire.jobs.labels import LABELS
from jobwire.jobs.record import LIMITS

FACT_VERSION = 1
# The verdict beside it in the journal.
FACT = "fact"
# Sixteen labels and every text at its longest.
MAX_FACT = 16 * 1024


class FactKind(StrEnum):
    """What the registry may decide."""

    REGISTERED = "registered"
    CLAIMED = "claimed"
    REQUEUED = "requeued"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    FAILED = "failed"
    PURGED = "purged"
    ANSWERED = "answered"


FACT_KINDS = frozenset(map(str, FactKind))
# They end a job without a word of its worker.
ENDING_FACTS = frozenset({FactKind.CANCELLED, FactKind.TIMED_OUT, FactKind.FAILED})


class Fact(NamedTuple):
    """One decision. `line` is its line in the job's history, from 1; `created_at` is the job's.

    `by`: who decided, of a claim the owner of the lease. `timeout`: by which limit, "" for none. `labels` are
    given with the registration only.
    """

    job_id: Annotated[str, JOB_ID]
    created_at: Annotated[str, STAMP]
    line: Annotated[int, count(0)]
    kind: Annotated[str, one_of(FactKind)]
    at: Annotated[str, STAMP]
    attempt: Annotated[int, count(1)]
    session: Annotated[str, text(MAX_NAME)] = ""
    by: Annotated[str, text(MAX_NAME)] = ""
    cause: Annotated[str, text(MAX_REASON)] = ""
    timeout: Annotated[str, one_of(("", *LIMITS))] = ""
    labels: Annotated[Mapping[str, str], LABELS] = {}  # never changed in place

    @property
    def place(self) -> int:
        """Return what rises from fact to fact of a job: one line may say two things (registered, claimed)."""
        return place_of(self.line, self.kind)


RULES = rules_of(Fact)
FIELDS = {"schema_version": constant(FACT_VERSION), **RULES}


def place_of(line: int, kind: str) -> int:
    """Return the place of a fact among those of its job."""
    return 2 * line + (kind != FactKind.REGISTERED)


def encode_fact(fact: Fact) -> bytes:
    """Return the fact as canonical JSON; raises InvalidInputError naming the field that no reader takes."""
    body = {"schema_version": FACT_VERSION, **fact._asdict(), "kind": str(fact.kind)}
    read_fields(body, FIELDS, _refused, optional=())
    try:
        return canonical_json(body)
    except JsonShapeError as error:
        raise InvalidInputError(f"a fact of job {fact.job_id}: {error.message}") from error


def decode_fact(payload: bytes, *, job_id: str) -> Fact | None:
    """Return the fact of job `job_id` in an entry with the verdict FACT; None for what is none of ours."""
    if len(payload) > MAX_FACT:
        return None
    try:
        fields = read_fields(decode_object(payload), FIELDS, _refused, optional=())
    except (JsonShapeError, InvalidInputError):
        return None
    del fields["schema_version"]
    return Fact(**fields) if fields["job_id"] == job_id else None


def _refused(name: str, cause: str) -> InvalidInputError:
    return InvalidInputError(f"field {name} {cause}", field=name)
