"""From a command's words to a saying: details and data, with limits that hold before all is read."""

import json
import sys
from collections.abc import Sequence
from typing import BinaryIO, NoReturn

from jobwire.core.canonical import MAX_INTEGER, JsonShapeError
from jobwire.core.errors import InvalidInputError, NotFoundError
from jobwire.core.event import MAX_DETAIL, MAX_PAYLOAD
from jobwire.core.strict_json import decode_object

STDIN = "-"
# A character takes four bytes at most (RFC 3629); two more for the final line break.
_MAX_DETAIL_BYTES = 4 * MAX_DETAIL + 2


def read_detail(text: str) -> str:
    """Return the detail that an option's `text` means: itself, or for `-` what stands on stdin.

    Reads no more than the limit; raises InvalidInputError beyond it or for what is not UTF-8.
    """
    if text != STDIN:
        return text
    raw = _limited(sys.stdin.buffer, _MAX_DETAIL_BYTES, "the detail on stdin")
    try:
        return raw.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise InvalidInputError("the detail on stdin is not UTF-8") from error


def read_data(pairs: Sequence[str], source: str | None) -> dict[str, object]:
    """Return the data of `--data-json SOURCE` (a file, or `-`) with the `--data` pairs laid over it.

    Raises InvalidInputError naming the pair or the file, NotFoundError for a missing file.
    """
    data: dict[str, object] = {} if source is None else _read_json(source)
    given: set[str] = set()
    for pair in pairs:
        key, separator, text = pair.partition("=")
        if not separator or not key:
            raise InvalidInputError(f"--data {pair!r} is not KEY=VALUE", hint="for example --data percent=40")
        if key in given:
            raise InvalidInputError(f"--data {key} is given twice", hint="give each key once")
        given.add(key)
        data[key] = scalar(text)
    return data


def scalar(text: str) -> object:
    """Return `text` as the JSON number, string, boolean or null that it is, otherwise as text.

    What is JSON but not the same number in every language (NaN, 1e999, beyond 2^53-1) is text.
    """
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, (dict, list)) or (isinstance(value, int) and abs(value) > MAX_INTEGER):
        return text
    if isinstance(value, float) and value - value != 0:
        return text
    return value


def _read_json(source: str) -> dict[str, object]:
    what = "the data on stdin" if source == STDIN else f"the data in {source}"
    try:
        if source == STDIN:
            raw = _limited(sys.stdin.buffer, MAX_PAYLOAD, what)
        else:
            with open(source, "rb") as file:  # noqa: PTH123 - the text is the caller's, also "/dev/fd/3"
                raw = _limited(file, MAX_PAYLOAD, what)
    except FileNotFoundError as error:
        raise NotFoundError(f"no file {source}", hint="--data-json names a file, or - for stdin") from error
    except OSError as error:
        raise InvalidInputError(f"cannot read {source}: {error.strerror}") from error
    try:
        return decode_object(raw)
    except JsonShapeError as error:
        raise InvalidInputError(f"{what}: {error.message}", hint="give one JSON object") from error


def _limited(stream: BinaryIO, limit: int, what: str) -> bytes:
    raw = stream.read(limit + 1)
    if len(raw) > limit:
        raise InvalidInputError(
            f"{what} has more than {limit} bytes",
            hint="an event carries a summary; keep bulk results in files",
            limit=limit,
        )
    return raw


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)
