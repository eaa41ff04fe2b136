"""RFC 8785 canonical JSON: the bytes that a signature covers."""

import json

from jobwire.core.errors import InvalidInputError

MAX_DEPTH = 32
# Integers beyond this lose digits in IEEE 754 doubles (RFC 8785 section 3.2.2.3, RFC 7493 section 2.2).
MAX_INTEGER = 2**53 - 1
# From here on JCS writes a number with an exponent (ECMA-262 section 6.1.6.1.20).
_FIRST_EXPONENT = 1e21
# UTF-16 order (RFC 8785 section 3.2.3) and code point order differ only from the surrogates' range upwards.
_NOT_BMP_SORTED = "\ud800"

# json.dumps is byte-identical to JCS for objects without floats and with keys below U+D800: a
# property test holds it against the rfc8785 package.
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
)


class JsonShapeError(InvalidInputError):
    """A value that is not interoperable JSON: too deep, too large an integer, not finite, not JSON."""


def canonical_json(value: object) -> bytes:
    """Return the RFC 8785 form of `value` as UTF-8.

    Raises JsonShapeError for what `check_shape` refuses and for text with lone surrogates.
    """
    try:
        return encode_checked(value, plain=check_shape(value))
    except UnicodeEncodeError as error:
        raise JsonShapeError("text holds a lone surrogate, which UTF-8 cannot carry") from error


def encode_checked(value: object, *, plain: bool) -> bytes:
    """Return the RFC 8785 form of a value that `check_shape` has judged (`plain` is its answer).

    For whoever has just decoded the value: checking costs as much as encoding. Text with lone
    surrogates raises UnicodeEncodeError.
    """
    if plain:
        return _ENCODER.encode(value).encode()
    import rfc8785  # noqa: PLC0415  rarely needed: only for floats and unusual keys

    return rfc8785.dumps(value)  # type: ignore[arg-type]  # check_shape has proved it JSON


def check_shape(value: object, depth: int = 1) -> bool:
    """Check that `value` is JSON that every language reads alike; tell if it is plain.

    True (plain) means that json.dumps writes it byte for byte like JCS.
    Raises JsonShapeError: nested deeper than MAX_DEPTH containers, integer beyond 2^53-1, NaN or
    Infinity, a key that is not a text, or a type that JSON does not have.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        if -MAX_INTEGER <= value <= MAX_INTEGER:  # type: ignore[operator]  # kind is int
            return True
        raise JsonShapeError("integer beyond 2^53-1")
    if kind is dict:
        return _check_object(value, depth)  # type: ignore[arg-type]  # kind is dict
    if kind is list or kind is tuple:
        _check_depth(depth)
        # min, not all: every element must be checked, also after one that is not plain.
        return min((check_shape(item, depth + 1) for item in value), default=True)  # type: ignore[attr-defined]
    if kind is float:
        _check_float(value)  # type: ignore[arg-type]  # kind is float
        return False
    raise JsonShapeError(f"not a JSON value: {kind.__name__}")


def _check_float(value: float) -> None:
    if value - value != 0:  # only NaN and the infinities differ from themselves so
        raise JsonShapeError("number is not finite")
    # JCS writes these without an exponent: the next reader would take them for integers too large.
    if MAX_INTEGER < abs(value) < _FIRST_EXPONENT:
        raise JsonShapeError("integer beyond 2^53-1")


def _check_object(value: dict[object, object], depth: int) -> bool:
    _check_depth(depth)
    plain = True
    for key, item in value.items():
        if type(key) is not str:
            raise JsonShapeError("object key is not a text")
        if not key.isascii() and max(key) >= _NOT_BMP_SORTED:
            plain = False
        # Most values are texts and small numbers: a call for each would double the cost of an event.
        kind = type(item)
        if kind is str or (kind is int and -MAX_INTEGER <= item <= MAX_INTEGER):  # type: ignore[operator]  # int
            continue
        plain = check_shape(item, depth + 1) and plain
    return plain


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise JsonShapeError(f"nested deeper than {MAX_DEPTH}")
