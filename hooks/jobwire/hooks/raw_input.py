"""A hook's input as it comes from an agent: JSON on stdin, bounded; what is none says nothing."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

# Of a tool that read a large file an agent hands over all: what is larger is not looked at.
MAX_INPUT = 32 * 1024 * 1024
_CHUNK = 1024 * 1024


class NoHookInputError(ValueError):
    """What came is no input of a hook; the text says why."""


def read_whole(source: IO[bytes]) -> bytes:
    """Read and return what the agent hands over; raises NoHookInputError where it is too much.

    It is read to its end in any case, so that the agent is not told of a broken pipe.
    """
    raw = source.read(MAX_INPUT + 1)
    if len(raw) > MAX_INPUT:
        while source.read(_CHUNK):
            pass
        raise NoHookInputError(f"more than {MAX_INPUT} bytes of input")
    return raw


def parse(raw: bytes) -> dict[str, object]:
    """Return the object in `raw`; raises NoHookInputError."""
    import json  # noqa: PLC0415 - most hooks hand their input on

    try:
        body = json.loads(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise NoHookInputError(f"{len(raw)} bytes that are no JSON: {error}") from error
    if not isinstance(body, dict):
        raise NoHookInputError("JSON, but no object")
    return body
