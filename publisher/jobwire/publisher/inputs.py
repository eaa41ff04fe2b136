"""From a command's words to a draft: details and data, with limits that hold before all is read."""

import json
import sys
from collections.abc import Sequence
from typing import BinaryIO

from jobwire.core.canonical import JsonShapeError, check_shape
from jobwire.core.errors import InvalidInputError, NotFoundError
from jobwire.core.strict_json import decode_object
from jobwire.jobs.event import MAX_DETAIL, MAX_PAYLOAD
from jobwire.storage.named_files import read_named_file

STDIN = "-"
_FILE_HINT = "--data-json names a file, or - for stdin"
# A character takes four bytes at most (RFC 3629); two more for the final line break.
_MAX_DETAIL_BYTES = 4 * MAX_DETAIL + 2


def read_detail(text: str) -> str:
    """Return the detail that an option's `text` means: itself, or for `-` what stands on stdin.

    Reads no more than the limit, and raises InvalidInputError beyond it. Bytes that are not UTF-8 come as
    Python gives them in argv.
    """
    if text != STDIN:
        return text
    raw = _limited(sys.stdin.buffer, _MAX_DETAIL_BYTES, "the detail on stdin")
    return raw.decode(errors="surrogateescape").removesuffix("\n").removesuffix("\r")


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
        if not _is_utf8(pair):
            raise InvalidInputError(f"--data {key!r} is not UTF-8", hint="check the shell's locale")
        if key in given:
            raise InvalidInputError(f"--data {key} is given twice", hint="give each key once")
        given.add(key)
        data[key] = scalar(text)
    return data


def scalar(text: str) -> object:
    """Return `text` as the JSON number, string, boolean or null that it is, otherwise as text.

    What is JSON but not the same in every language (NaN, 1e999, beyond 2^53-1, half a surrogate pair) is
    text.
    """
    try:
        value = json.loads(text)
        check_shape(value)
    except (ValueError, RecursionError, JsonShapeError):
        return text
    if isinstance(value, (dict, list)) or (isinstance(value, str) and not _is_utf8(value)):
        return text
    return value


def _read_json(source: str) -> dict[str, object]:
    what = "the data on stdin" if source == STDIN else f"the data in {source}"
    try:
        if source == STDIN:
            raw = _limited(sys.stdin.buffer, MAX_PAYLOAD, what)
        else:
            raw = read_named_file(source, "data file", limit=MAX_PAYLOAD, hint=_FILE_HINT)
    except FileNotFoundError as error:
        raise NotFoundError(f"no file {source}", hint=_FILE_HINT) from error
    except OSError as error:
        raise InvalidInputError(f"cannot read stdin: {error.strerror}") from error
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


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
