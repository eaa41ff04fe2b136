"""The bounds of what a record holds: one definition for whoever writes it and whoever reads it."""

import os

from jobwire.core.errors import InvalidInputError

MAX_TITLE = 200
MAX_PORT = 65535
# Of MQTT, as settings name them.
PROTOCOLS = ("auto", "5", "3.1.1")
# Of sessions and of owners of leases.
MAX_NAME = 128
MAX_KEY = 256
# Every writer of the record carries them along: bulk belongs into files that they name.
MAX_INSTRUCTIONS = 256 * 1024
# With the name of who released it, it becomes the record's detail (at most 1,024 characters).
MAX_REASON = 512
# Of one broker setting: the longest path (PATH_MAX of Linux).
MAX_SETTING = 4096
# A hundred years: longer than anybody waits, and every end of it is still a four-digit year.
MAX_SECONDS = 100 * 365.25 * 86400.0
DEFAULT_LEASE_SECONDS = 300.0
MAX_ATTEMPTS = 1000
DEFAULT_MAX_ATTEMPTS = 5
# Tokens of earlier attempts that a record keeps, so that their holders can be told: the latest.
KEPT_TOKENS = 16


def seconds_fit(value: object) -> bool:
    """Tell whether `value` is a positive number of seconds that a record can hold."""
    # Not isinstance: True would be written as `true`, which is not a number.
    return type(value) in (int, float) and 0 < value <= MAX_SECONDS  # type: ignore[operator]  # a number by now


def check_seconds(field: str, value: float) -> None:
    """Refuse what `seconds_fit` does not take."""
    if not seconds_fit(value):
        raise InvalidInputError(
            f"{field} is {value!r}", hint=f"a positive number of seconds, at most {MAX_SECONDS:.0f}"
        )


def check_count(field: str, value: int, maximum: int) -> None:
    """Refuse what is not a whole number from 1 to `maximum`."""
    if type(value) is not int or not 1 <= value <= maximum:
        raise InvalidInputError(f"{field} is {value!r}", hint=f"a whole number from 1 to {maximum}")


def check_line(field: str, value: str, limit: int, *, empty: bool = False) -> None:
    """Refuse what is not one printable line of at most `limit` characters."""
    check_text(field, value, limit)
    if not (value or empty):
        raise InvalidInputError(f"the {field} is empty", hint="it is one printable line")
    if any(char < " " or "\x7f" <= char <= "\x9f" for char in value):
        raise InvalidInputError(
            f"the {field} is not one printable line", hint="leave out line breaks and control characters"
        )


def check_text(field: str, value: str, limit: int) -> None:
    """Refuse what has more than `limit` characters, or is no text that UTF-8 can carry."""
    if len(value) > limit:
        raise InvalidInputError(
            f"the {field} has {len(value)} characters, {limit} are allowed",
            hint="shorten it; put a longer text into a file and name that",
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"the {field} is not valid UTF-8", hint="is it a text?") from error
    if "\0" in value:
        raise InvalidInputError(f"the {field} holds a NUL character", hint="is it a text?")


def fits_a_path(text: str) -> bool:
    """Tell whether the system takes it as an argument or a name: no NUL, and every character from bytes."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False
