"""Fills the `@NAME@` places of the packaged templates."""

import re
from collections.abc import Mapping
from importlib.resources import files

from jobwire.core.errors import ConfigError

_PLACE = re.compile(r"@([A-Z_]+)@")


def render_template(name: str, values: Mapping[str, str]) -> str:
    """Return the packaged template `name` with every place filled.

    Raises ConfigError for a value that would start a new line in a line-oriented file, KeyError for a place
    without a value.
    """
    for key, value in values.items():
        if any(ord(sign) < ord(" ") for sign in value):
            raise ConfigError(
                f"{key} holds a control character: {value!r}", hint="choose a plain path or name"
            )
    source = files("jobwire.broker").joinpath("templates", name).read_text(encoding="utf-8")
    return _PLACE.sub(lambda match: values[match[1]], source)
