"""A fact: what the registry decided about a job, as an entry of the journal beside the workers' events.

A fact is told apart from a worker's message by two things that no worker has: its topic, which no
recorder subscribes to, and the verdict FACT, which no recorder gives to what came over the wire.

For recorders that are not the process of the registry, a signed state has the facts of its job as well: each
state all of them again, so whoever missed one, or gets them in another order, knows as much from the next.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, NamedTuple

from jobwire.core.bounds import MAX_NAME, MAX_REASON
from jobwire.core.canonical import JsonShapeError, canonical_json
from jobwire.core.errors import InvalidInputError
from jobwire.core.fields import (
    JOB_ID,
    STAMP,
    constant,
    count,
    many,
    object_of,
    one_of,
    read_fields,
    rules_of,
    text,
)
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
        return 2 * self.line + (self.kind != FactKind.REGISTERED)


RULES = rules_of(Fact)
FIELDS = {"schema_version": constant(FACT_VERSION), **RULES}


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


# A state is sent again and again, so it stays a small message.
MAX_FACTS = 32
_MAX_BYTES = 12 * 1024
_JOB = ("job_id", "created_at")
STATED = many(
    object_of(
        {name: rule for name, rule in RULES.items() if name not in _JOB},
        Fact._field_defaults,
        "one decision of the registry: by whom, in which attempt, at which line of the job's history",
    ),
    MAX_FACTS,
).described("what the registry decided, oldest first: the registration and the latest others")


def kept_facts(facts: Sequence[Fact]) -> list[Fact]:
    """Return those facts that a state has room for: the first, which is the registration, and the latest."""
    return list(facts) if len(facts) <= MAX_FACTS else [facts[0], *facts[1 - MAX_FACTS :]]


def facts_said(facts: Sequence[Fact]) -> list[dict[str, object]]:
    """Return the facts, at least one, as a state has them: as many of the latest as there is room for."""
    first, *others = (dict(_said(fact)) for fact in kept_facts(facts))
    room = _MAX_BYTES - len(canonical_json(first))
    kept: list[dict[str, object]] = []
    for one in reversed(others):
        room -= len(canonical_json(one))
        if room < 0:
            break
        kept.insert(0, one)
    return [first, *kept]


def facts_in(payload: bytes, *, job_id: str) -> list[Fact]:
    """Return what a state of this job, whose signature was checked, says was decided, in order.

    A fact of which a later version says something unknown here is left out.
    """
    try:
        body = decode_object(payload)
    except JsonShapeError:
        return []
    said = body.get("facts")
    common = {name: body.get(name) for name in _JOB}
    facts: list[Fact] = []
    for one in said[:MAX_FACTS] if isinstance(said, list) and body.get("job_id") == job_id else ():
        try:
            fields = read_fields({**one, **common}, RULES, _refused, optional=Fact._field_defaults)
        except (InvalidInputError, TypeError):
            continue
        facts.append(Fact(**fields))
    return sorted(facts, key=lambda fact: fact.place)


def _said(fact: Fact) -> Iterator[tuple[str, object]]:
    for name, value in fact._asdict().items():
        if name not in _JOB and value != Fact._field_defaults.get(name):
            yield name, str(value) if name == "kind" else value
