"""HMAC-SHA256 over canonical JSON (RFC 2104, FIPS 180-4), keyed by a job's token."""

import hmac
import re
import secrets
from collections.abc import Mapping

from jobwire.core.canonical import canonical_json

SIGNATURE_FIELD = "hmac_sig"
_SIGNATURE = re.compile(r"[0-9a-f]{64}")


def new_token() -> str:
    """Return a fresh job token: 256 random bits as URL-safe text."""
    return secrets.token_urlsafe(32)


def sign_bytes(message: bytes, token: str) -> str:
    """Return the lower-case hex HMAC-SHA256 of `message` under the UTF-8 bytes of `token`."""
    return hmac.digest(token.encode(), message, "sha256").hex()


def verify_bytes(message: bytes, signature: object, token: str) -> bool:
    """Tell in constant time whether `signature` is that of `message`."""
    if not isinstance(signature, str) or not _SIGNATURE.fullmatch(signature):
        return False
    return hmac.compare_digest(sign_bytes(message, token), signature)


def signed_event_message(event: Mapping[str, object]) -> bytes:
    """Return the bytes that an event's signature covers: JCS of the event without `data.hmac_sig`.

    `event["data"]` must be an object.
    """
    data = event["data"]
    if not isinstance(data, Mapping):
        raise TypeError("event data is not an object")
    bare = {key: value for key, value in data.items() if key != SIGNATURE_FIELD}
    return canonical_json({**event, "data": bare})
