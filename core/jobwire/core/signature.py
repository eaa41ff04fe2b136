"""HMAC-SHA256 over canonical JSON (RFC 2104, FIPS 180-4), keyed by a job's token."""

from _operator import _compare_digest as compare_digest  # as hmac has it, without loading OpenSSL
from functools import lru_cache

from jobwire.core.digest import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    import hmac

SIGNATURE_FIELD = "hmac_sig"
_HEX_DIGITS = 64
# As many keys as one consumer follows at a time.
_READY_KEYS = 4096
_BLOCK = 64
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))


def new_token() -> str:
    """Return a fresh job token: 256 random bits as URL-safe text."""
    import secrets  # noqa: PLC0415 - brings random, which who only signs does not need

    return secrets.token_urlsafe(32)


def sign_bytes(message: bytes, token: str) -> str:
    """Return the lower-case hex HMAC-SHA256 of `message` under the UTF-8 bytes of `token`."""
    # By hand, as RFC 2104 says it: a worker signs once, and hmac would load OpenSSL for that.
    key = token.encode()
    block = (key if len(key) <= _BLOCK else sha256(key).digest()).ljust(_BLOCK, b"\0")
    inner = sha256(block.translate(_INNER) + message).digest()
    return sha256(block.translate(_OUTER) + inner).hexdigest()


def verify_bytes(message: bytes, signature: object, token: str) -> bool:
    """Tell in constant time whether `signature` is that of `message`."""
    # compare_digest takes ASCII texts only; upper-case digits differ from what we sign.
    if not isinstance(signature, str) or len(signature) != _HEX_DIGITS or not signature.isascii():
        return False
    mac = _keyed(token).copy()
    mac.update(message)
    return compare_digest(mac.hexdigest(), signature)


@lru_cache(maxsize=_READY_KEYS)
def _keyed(token: str) -> "hmac.HMAC":
    """Return a MAC that has taken in the key: a copy costs 2.7 us a message, `hmac.digest` 3.9."""
    import hmac  # noqa: PLC0415 - see sign_bytes

    return hmac.new(token.encode(), digestmod="sha256")
