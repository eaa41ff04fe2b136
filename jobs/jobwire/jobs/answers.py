"""The signed, retained answers of a job: how a worker on another host hears what a person said. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from jobwire.core.canonical import canonical_json
from jobwire.core.envelope import open_sealed, seal
from jobwire.core.errors import InvalidInputError
from jobwire.jobs.event import MAX_PAYLOAD
from jobwire.jobs.record import JobRecord
from jobwire.jobs.request_form import MAX_ANSWER, MAX_REQUESTS, check_request_id
from jobwire.jobs.requests import Answer, unapplied

ANSWERS_VERSION = 1
_KIND = "answers"
# What the rest of the sheet takes, signature included.
_ROOM = 1024


class AnswerSheet(NamedTuple):
    """All answers that are given and not applied; `n` rises with each change of them."""

    n: int
    answers: Mapping[str, Answer]


def encode_answers(record: JobRecord) -> bytes:
    """Return the job's answers, signed for the holder of its present attempt; nothing where there are none.

    As many as one message carries, the oldest first; the others follow when those are applied.
    """
    told: list[dict[str, object]] = []
    room = MAX_PAYLOAD - _ROOM
    for one in unapplied(record.requests):
        item: dict[str, object] = {
            "id": one.id,
            "text": one.answer,
            "always": one.always,
            "by": one.answered_by,
            "through": one.answered_through,
            "answered_at": one.answered_at,
        }
        room -= len(canonical_json(item)) + 1
        if room < 0:
            break
        told.append(item)
    if not told:
        return b""
    body = {
        "schema_version": ANSWERS_VERSION,
        "kind": _KIND,
        "job_id": record.job_id,
        "attempt": record.attempt,
        "n": record.answers_n,
        "answers": told,
    }
    return seal(body, record.auth_token)


def decode_answers(payload: bytes, *, job_id: str, attempt: int, token: str) -> AnswerSheet | None:
    """Return the sheet if it is signed for the holder of this attempt of the job, else None.

    What is no answer in it is left out.
    """
    about = {"schema_version": ANSWERS_VERSION, "kind": _KIND, "job_id": job_id, "attempt": attempt}
    envelope = open_sealed(payload, token, about=about) if len(payload) <= MAX_PAYLOAD else None
    if envelope is None or envelope.superseded:
        return None
    n, told = envelope.body.get("n"), envelope.body.get("answers")
    if type(n) is not int or not isinstance(told, list):
        return None
    return AnswerSheet(n, dict(filter(None, map(_answer, told[:MAX_REQUESTS]))))


def _answer(item: object) -> tuple[str, Answer] | None:
    if not isinstance(item, dict):
        return None
    texts = [item.get(name) for name in ("id", "text", "by", "through")]
    always = item.get("always", False)
    if not all(isinstance(one, str) and len(one) <= MAX_ANSWER for one in texts) or type(always) is not bool:
        return None
    request_id, text, by, through = map(str, texts)
    try:
        return check_request_id(request_id), Answer(text, by, through, always)
    except InvalidInputError:
        return None
