"""What a worker wants to say, checked before it becomes an event."""

from collections.abc import Mapping
from typing import NamedTuple

from jobwire.core.errors import InvalidInputError
from jobwire.core.redaction import MASK, find_leaks, redact, refuse_leaks


class Saying(NamedTuple):
    """An event without its place in the job's history."""

    event: str
    detail: str = ""
    data: Mapping[str, object] = {}  # never changed in place


def refuse_secrets(saying: Saying, environ: Mapping[str, str]) -> Saying:
    """Return `saying` unless it holds what must not leave the host; raises InvalidInputError naming the kind.

    `detail` may hold neither paths nor secrets. Texts in `data` may hold paths (a result's place is a
    figure like any other) but no secrets. The error never repeats what was found.
    """
    refuse_leaks(saying.detail, environ)
    kinds = sorted({kind for text in _texts(saying.data) for kind in _secrets(text, environ)})
    if kinds:
        raise InvalidInputError(
            f"the data holds what must not be published: {', '.join(kinds)}",
            hint="leave it out; --redact replaces it",
            kinds=kinds,
        )
    return saying


def redact_secrets(saying: Saying, environ: Mapping[str, str]) -> Saying:
    """Return `saying` with everything that `refuse_secrets` refuses replaced by a mask."""
    data = {key: _redacted(value, environ) for key, value in saying.data.items()}
    return saying._replace(detail=redact(saying.detail, environ), data=data)


def _secrets(text: str, environ: Mapping[str, str]) -> set[str]:
    return {leak.kind for leak in find_leaks(text, environ)} - {"path"}


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _texts(item)]
    return []


def _redacted(value: object, environ: Mapping[str, str]) -> object:
    if isinstance(value, str):
        # The whole text: where a secret starts and ends in it is a guess, and data is read by programs.
        return MASK if _secrets(value, environ) else value
    if isinstance(value, Mapping):
        return {key: _redacted(item, environ) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redacted(item, environ) for item in value]
    return value
