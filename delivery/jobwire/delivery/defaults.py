"""What is done where nobody says otherwise; apart, because help names it."""

# Tries to reach the broker.
DEFAULT_ATTEMPTS = 3
# Retained terminal events leave an MQTT 5 broker after a week (SPEC section 1).
EXPIRY_SECONDS = 7 * 86400
