"""Defaults and bounds that the broker's command line and its files share."""

# Beside the port for passwords (8883).
DEFAULT_MTLS_PORT = 8884
# OWASP Password Storage Cheat Sheet, PBKDF2-HMAC-SHA512: 210,000. For passwords that people choose.
PRESENT_DAY_ITERATIONS = 210_000
MAX_ITERATIONS = 10_000_000
