"""The SQL files: `schema.sql` as a list of statements, `queries.sql` by name."""

import re
from collections.abc import Iterator
from functools import cache
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")


@cache
def queries() -> dict[str, str]:
    """Return every statement of queries.sql by its name."""
    parts = _NAME.split(_text("queries.sql"))
    return {name: _COMMENT.sub("", body).strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def schema() -> Iterator[str]:
    """Yield the statements of schema.sql; none holds a semicolon inside."""
    for statement in _COMMENT.sub("", _text("schema.sql")).split(";"):
        if statement.strip():
            yield statement.strip()


def _text(name: str) -> str:
    return resources.files("jobwire.metrics").joinpath(name).read_text(encoding="utf-8")
