"""The rules for an event's fields, checked by hand.

`models.EventModel` states the same rules for programs and documents; importing pydantic costs more
time than a short command may take, and calling it half of an event's admission. A property test
holds both equal (docs/adr/0003).
"""

import re
from collections.abc import Mapping
from datetime import date

from jobwire.core.canonical import MAX_INTEGER
from jobwire.jobs.event import EVENT_TYPES, MAX_DETAIL, SCHEMA_VERSION

_JOB_ID = re.compile(r"[0-9a-f]{8}")
# [0-9], not \d, which takes every script's digits; the ranges of hour, minute and second spare a parser.
_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?Z"
)
_FIELDS = 7


def fields_fit(body: Mapping[str, object]) -> bool:
    """Tell whether a decoded object has exactly an event's fields, each within its rule."""
    if len(body) != _FIELDS:
        return False
    try:
        version, seq, job_id = body["schema_version"], body["seq"], body["job_id"]
        event, stamp, detail, data = body["event"], body["timestamp"], body["detail"], body["data"]
    except KeyError:
        return False
    return (
        type(version) is int
        and version == SCHEMA_VERSION
        and type(seq) is int
        and 1 <= seq <= MAX_INTEGER
        and type(job_id) is str
        and _JOB_ID.fullmatch(job_id) is not None
        and type(event) is str
        and event in EVENT_TYPES
        and type(stamp) is str
        and _is_timestamp(stamp)
        and type(detail) is str
        and len(detail) <= MAX_DETAIL
        and type(data) is dict
    )


def bad_field(body: Mapping[str, object]) -> str:
    """Name the first bad field without repeating its value (a forger chooses that)."""
    from pydantic import ValidationError  # noqa: PLC0415 - only a bad event needs it

    from jobwire.jobs.models import EventModel  # noqa: PLC0415 - loads pydantic

    try:
        EventModel.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        if first["loc"] and first["loc"][0] not in EventModel.model_fields:
            field = "an unknown key"
        extra = f" (one of {', '.join(sorted(EVENT_TYPES))})" if field == "event" else ""
        return f"{field}: {first['type']}{extra}"
    return "a field does not fit"


def _is_timestamp(stamp: str) -> bool:
    match = _TIMESTAMP.fullmatch(stamp)
    if match is None:
        return False
    try:
        date.fromisoformat(match[1])
    except ValueError:
        return False
    return True
