"""HMAC-SHA256 over canonical JSON (RFC 2104, FIPS 180-4), keyed by a job's token."""

import hmac
import secrets

SIGNATURE_FIELD = "hmac_sig"
_HEX_DIGITS = 64


def new_token() -> str:
    """Return a fresh job token: 256 random bits as URL-safe text."""
    return secrets.token_urlsafe(32)


def sign_bytes(message: bytes, token: str) -> str:
    """Return the lower-case hex HMAC-SHA256 of `message` under the UTF-8 bytes of `token`."""
    return hmac.digest(token.encode(), message, "sha256").hex()


def verify_bytes(message: bytes, signature: object, token: str) -> bool:
    """Tell in constant time whether `signature` is that of `message`."""
    # compare_digest takes ASCII texts only; upper-case digits differ from what we sign.
    if not isinstance(signature, str) or len(signature) != _HEX_DIGITS or not signature.isascii():
        return False
    return hmac.compare_digest(sign_bytes(message, token), signature)
