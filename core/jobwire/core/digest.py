"""SHA-256 without OpenSSL where Python brings its own: loading OpenSSL is a tenth of a worker's start.

For the few short texts of one event; `hashlib` itself falls back on the same ones.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import sha256
else:
    try:
        from _sha2 import sha256  # from Python 3.12 on
    except ImportError:
        try:
            from _sha256 import sha256
        except ImportError:  # a Python that was built without
            from hashlib import sha256

__all__ = ["sha256"]
