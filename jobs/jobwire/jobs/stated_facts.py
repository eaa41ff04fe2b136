"""The facts in a state: what the registry decided about a job, for recorders that are not its process.

Each state has them all again, so whoever missed one, or gets them in another order, knows as much from
the next. Of which job they speak stands once in the state.
"""

from collections.abc import Iterator, Sequence

from jobwire.core.canonical import JsonShapeError, canonical_json
from jobwire.core.errors import InvalidInputError
from jobwire.core.fields import many, object_of, read_fields
from jobwire.core.strict_json import decode_object
from jobwire.jobs.fact import RULES, Fact

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
            fields = read_fields({**one, **common}, RULES, _misread, optional=Fact._field_defaults)
        except (InvalidInputError, TypeError):
            continue
        facts.append(Fact(**fields))
    return sorted(facts, key=lambda fact: fact.place)


def _said(fact: Fact) -> Iterator[tuple[str, object]]:
    for name, value in fact._asdict().items():
        if name not in _JOB and value != Fact._field_defaults.get(name):
            yield name, str(value) if name == "kind" else value


def _misread(name: str, cause: str) -> InvalidInputError:
    return InvalidInputError(f"field {name} {cause}", field=name)
