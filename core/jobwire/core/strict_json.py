"""Decoding JSON from strangers: one meaning or a refusal (RFC 7493, I-JSON)."""

import json
from typing import NoReturn

from jobwire.core.canonical import JsonShapeError, check_shape


def decode_object(payload: bytes) -> dict[str, object]:
    """Return the JSON object in `payload`; see `decode_checked`."""
    return decode_checked(payload)[0]


def decode_checked(payload: bytes) -> tuple[dict[str, object], bool]:
    """Return the JSON object in `payload`, and whether it is plain (see `canonical.check_shape`).

    Raises JsonShapeError for invalid UTF-8, a BOM, trailing bytes, duplicate keys, NaN, Infinity,
    integers beyond 2^53-1, nesting deeper than 32, lone surrogates, or anything but an object.
    """
    try:
        value = _DECODER.decode(payload.decode())
        if type(value) is not dict:
            raise JsonShapeError("not a JSON object")
        plain = check_shape(value)
    except UnicodeDecodeError as error:
        raise JsonShapeError("not valid UTF-8") from error
    except RecursionError as error:
        raise JsonShapeError("nested too deeply") from error
    except ValueError as error:
        raise JsonShapeError(f"not JSON: {error}") from error
    # json accepts an escaped lone surrogate, UTF-8 cannot carry it back.
    if b"\\u" in payload:
        _check_text(value)
    return value, plain


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise JsonShapeError("duplicate key")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise JsonShapeError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_constant)


def _check_text(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise JsonShapeError("text holds a lone surrogate, which UTF-8 cannot carry") from error
