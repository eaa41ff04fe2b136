"""Whose rights this process has."""

import os


def user_name() -> str:
    """Return the user's name, or his number where the system knows no name (as in many containers)."""
    import pwd  # noqa: PLC0415 - on the path of `publish_event`, for the few changes that a person makes

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"
