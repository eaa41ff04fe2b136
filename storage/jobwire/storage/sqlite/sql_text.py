"""SQL in files: a script as single statements, queries by their names."""

from __future__ import annotations

import re
from sqlite3 import complete_statement

_NAME = re.compile(r"^-- name: (\w+)[ \t]*$", re.MULTILINE)
_COMMENT_LINES = re.compile(r"\A(?:--[^\n]*\n|\s)+")


class SqlFormatError(ValueError):
    """A .sql file of ours is not in the form that its loader takes."""


def statements(script: str) -> list[str]:
    """Return the statements of a script, each with its semicolon; triggers stay whole.

    SQLite's own tokenizer finds the ends, so a semicolon in a string or a comment ends nothing.
    """
    found: list[str] = []
    statement = ""
    for piece in re.split(r"(?<=;)", script):
        statement += piece
        if complete_statement(statement):
            found.append(statement.strip())
            statement = ""
    if not _is_nothing(statement):
        raise SqlFormatError(f"a statement does not end with a semicolon: {statement.strip()[:80]!r}")
    return [one for one in found if not _is_nothing(one.removesuffix(";"))]


class NamedQueries(dict[str, str]):
    """The statements of `-- name: ...` blocks by name; each has a sentence as a comment above it.

    Each is read when it is asked for: a short command asks a handful of two hundred. Raises SqlFormatError
    for text before the first name and a name twice; when asked, for a block without a sentence or with any
    other number of statements than one.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        head, *parts = _NAME.split(text)
        if not _is_nothing(head):
            raise SqlFormatError("there is SQL before the first `-- name: ...`")
        self._blocks = dict(zip(parts[::2], parts[1::2], strict=True))
        if len(self._blocks) * 2 < len(parts):
            twice = next(name for name in self._blocks if parts[::2].count(name) > 1)
            raise SqlFormatError(f"query {twice} stands there twice")

    def __missing__(self, name: str) -> str:
        block = self._blocks[name]
        sentence = _COMMENT_LINES.match(block)
        if sentence is None or "--" not in sentence.group():
            raise SqlFormatError(f"query {name} has no sentence that says what it is for")
        found = statements(block[sentence.end() :])
        if len(found) != 1:
            raise SqlFormatError(f"query {name} has {len(found)} statements")
        self[name] = query = found[0].removesuffix(";")
        return query

    def all(self) -> dict[str, str]:
        """Return all of them."""
        return {name: self[name] for name in self._blocks}


def _is_nothing(text: str) -> bool:
    return all(not line or line.startswith("--") for line in map(str.strip, text.splitlines()))
