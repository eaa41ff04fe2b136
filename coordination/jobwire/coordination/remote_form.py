"""What agents on other hosts and the process that owns the store say to each other. Pure.

Each is a sealed object (core.envelope) under the agent's key, at most 64 KiB from an agent and 192 KiB to it:
a request with an id, the answer to it, a doorbell, a presence. Who replays a request gets the first answer.
"""

from collections.abc import Mapping
from typing import NamedTuple

from jobwire.core.bounds import MAX_NAME
from jobwire.core.canonical import JsonShapeError, canonical_json
from jobwire.core.envelope import open_sealed, seal
from jobwire.core.errors import (
    ConflictError,
    InvalidInputError,
    JobwireError,
    NotFoundError,
    NoWorkError,
    StorageError,
    error_of,
)
from jobwire.core.exit_codes import ExitCode

SCHEMA_VERSION = 1
MAX_REQUEST = 64 * 1024
# Below what the embedded broker takes in one packet.
MAX_ANSWER = 192 * 1024
MAX_ID = 64
REQUEST, ANSWER, DOORBELL, PRESENCE = "request", "answer", "doorbell", "presence"


_ERRORS: Mapping[ExitCode, type[JobwireError]] = {
    kind.exit_code: kind for kind in (NoWorkError, ConflictError, InvalidInputError, NotFoundError)
}


class RemoteRequest(NamedTuple):
    """What an agent asks for: one verb with its arguments. `at` is epoch seconds by its own clock."""

    agent: str
    id: str
    verb: str
    args: Mapping[str, object]
    at: float


class RemoteAnswer(NamedTuple):
    """What became of a request: what commands print, or why it failed."""

    id: str
    result: Mapping[str, object] | None
    error: Mapping[str, object] | None

    def outcome(self) -> dict[str, object]:
        """Return the result; raises the error that was answered, with its code."""
        if self.error is not None:
            told = error_of({"error": "refused", **self.error})
            kind = _ERRORS.get(told.exit_code, StorageError)
            facts = self.error.get("facts")
            beside = {str(name): value for name, value in facts.items()} if isinstance(facts, dict) else {}
            for name in ("message", "hint", "code"):
                beside.pop(name, None)
            raise kind(told.message, hint=told.hint, code=self.error.get("code"), **beside)
        return dict(self.result or {})


class Presence(NamedTuple):
    """A sign of life: the retained word of an agent, numbered within one life; `lost` is its Will."""

    agent: str
    incarnation: str
    number: int
    status: str
    current_task: str | None = None
    progress: float | None = None
    interval_seconds: float = 10.0
    lost: bool = False


def seal_request(request: RemoteRequest, key: str) -> bytes:
    """Return the request for the outbox topic; raises InvalidInputError (too_large, or not JSON)."""
    body = {"kind": REQUEST, **request._asdict(), "args": dict(request.args)}
    return _bounded(_sealed(body, key), MAX_REQUEST, "shorten the body, or name a file that both hosts see")


def open_request(payload: bytes, key: str, agent: str) -> RemoteRequest | None:
    """Return the request of `agent` in `payload`, None where it is none or not signed with its key."""
    body = _opened(payload, key, kind=REQUEST, agent=agent)
    if body is None:
        return None
    name, verb, args, at = (body.get(field) for field in ("id", "verb", "args", "at"))
    if not (
        isinstance(name, str) and 0 < len(name) <= MAX_ID and isinstance(verb, str) and isinstance(args, dict)
    ):
        return None
    return RemoteRequest(agent, name, verb, args, float(at)) if isinstance(at, int | float) else None


def seal_answer(agent: str, answer: RemoteAnswer, key: str) -> bytes:
    """Return the answer for the inbox topic; one that is too large becomes the error that says so."""
    body = {"kind": ANSWER, "agent": agent, **answer._asdict()}
    sealed = _sealed(body, key)
    if len(sealed) <= MAX_ANSWER:
        return sealed
    error = InvalidInputError(
        f"the answer has {len(sealed)} bytes, {MAX_ANSWER} can be sent", hint="ask for fewer with `limit`"
    )
    return seal_answer(agent, failure(answer.id, error, "too_large"), key)


def failure(request_id: str, error: JobwireError, code: str) -> RemoteAnswer:
    """Return the answer that tells of an error, with those of its facts that are plain."""
    facts = {
        name: value
        for name, value in error.facts.items()
        if isinstance(value, (str, int, float, bool, list)) and name not in {"code", "response"}
    }
    return RemoteAnswer(request_id, None, {**error.to_json(), "code": code, "facts": facts})


def open_answer(payload: bytes, key: str, agent: str) -> RemoteAnswer | None:
    """Return the answer for `agent` in `payload`, None where it is none or not signed with its key."""
    body = _opened(payload, key, kind=ANSWER, agent=agent)
    if body is None:
        return None
    name, result, error = (body.get(field) for field in ("id", "result", "error"))
    if not isinstance(name, str) or not isinstance(result, dict | None) or not isinstance(error, dict | None):
        return None
    return RemoteAnswer(name, result, error)


def seal_doorbell(agent: str, event_id: int, key: str) -> bytes:
    """Return the word that there is something new for the agent, up to an event."""
    return _sealed({"kind": DOORBELL, "agent": agent, "event_id": event_id}, key)


def is_doorbell(payload: bytes, key: str, agent: str) -> bool:
    """Tell whether somebody who may ring does."""
    return _opened(payload, key, kind=DOORBELL, agent=agent) is not None


def seal_presence(presence: Presence, key: str) -> bytes:
    """Return the presence for its retained topic, or for the Will."""
    return _sealed({"kind": PRESENCE, **presence._asdict()}, key)


def open_presence(payload: bytes, key: str, agent: str) -> Presence | None:
    """Return the presence of `agent` in `payload`, None where it is none or not signed with its key."""
    body = _opened(payload, key, kind=PRESENCE, agent=agent)
    if body is None:
        return None
    found = {name: body.get(name) for name in Presence._fields}
    number, interval, progress = (found[name] for name in ("number", "interval_seconds", "progress"))
    fits = (
        type(number) is int
        and all(isinstance(found[name], str) for name in ("incarnation", "status"))
        and len(str(found["incarnation"])) <= MAX_NAME
        and isinstance(found["current_task"], str | None)
        and isinstance(interval, int | float)
        and (progress is None or isinstance(progress, int | float))
        and isinstance(found["lost"], bool)
    )
    return Presence(**found) if fits else None  # type: ignore[arg-type]  # looked at above


def _sealed(body: Mapping[str, object], key: str) -> bytes:
    return seal({"schema_version": SCHEMA_VERSION, **body}, key)


def _opened(payload: bytes, key: str, **about: object) -> Mapping[str, object] | None:
    envelope = open_sealed(payload, key, about={"schema_version": SCHEMA_VERSION, **about})
    return None if envelope is None else envelope.body


def _bounded(payload: bytes, limit: int, hint: str) -> bytes:
    if len(payload) > limit:
        raise InvalidInputError(
            f"it has {len(payload)} bytes, {limit} can be sent", hint=hint, code="too_large"
        )
    return payload


def check_args(args: Mapping[str, object]) -> Mapping[str, object]:
    """Return arguments that can be sent; raises InvalidInputError for what JSON cannot carry."""
    try:
        canonical_json(args)
    except JsonShapeError as error:
        raise InvalidInputError(f"these arguments cannot be sent: {error.message}") from error
    return args
