"""A sealed object: what is said about one thing of a kind, signed for the holder of a key.

All fields but the signatures are signed, those of later versions too, as RFC 8785 bytes. Events carry
their signature in `data` and are opened by admission; whatever else crosses the wire is sealed here.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from jobwire.core.canonical import JsonShapeError, canonical_json
from jobwire.core.signature import SIGNATURE_FIELD, sign_bytes, verify_bytes
from jobwire.core.strict_json import decode_object

_SUPERSEDED = "superseded"
_UNSIGNED = frozenset({SIGNATURE_FIELD, _SUPERSEDED})


class Envelope(NamedTuple):
    """A verified object. `superseded` is True where it was sealed for a former holder of the thing."""

    body: Mapping[str, object]
    superseded: bool


def seal(body: Mapping[str, object], key: str, *, former_keys: Iterable[str] = ()) -> bytes:
    """Return `body`, signed with `key`, as canonical JSON.

    With one more signature for each of `former_keys`: who held the thing before can verify that he was
    replaced, and nobody else learns anything. Raises JsonShapeError for what is not JSON.
    """
    message = canonical_json(body)
    return canonical_json(
        {
            **body,
            SIGNATURE_FIELD: sign_bytes(message, key),
            _SUPERSEDED: [sign_bytes(message, former) for former in former_keys],
        }
    )


def open_sealed(payload: bytes, key: str, *, about: Mapping[str, object]) -> Envelope | None:
    """Return the envelope if it was sealed for the holder of `key`, else None.

    `about` are the fields that say what it speaks of: a genuine one of another thing is none.
    """
    try:
        value = decode_object(payload)
        body = {name: item for name, item in value.items() if name not in _UNSIGNED}
        message = canonical_json(body)
    except JsonShapeError:
        return None
    superseded = value.get(_SUPERSEDED)
    former = superseded if isinstance(superseded, list) else []
    old = [verify_bytes(message, signature, key) for signature in former]
    current = verify_bytes(message, value.get(SIGNATURE_FIELD), key)
    if not (current or any(old)) or any(body.get(name) != item for name, item in about.items()):
        return None
    return Envelope(body, superseded=not current)
