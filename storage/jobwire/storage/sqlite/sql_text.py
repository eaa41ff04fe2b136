"""SQL in files: a script as single statements, queries by their names."""

from __future__ import annotations

import re
from sqlite3 import complete_statement

_HEAD = re.compile(r"^-- (name|columns): (\w+)[ \t]*$", re.MULTILINE)
_COLUMNS = re.compile(r"\{(?:(\w+)\.|(:))?(\w+)\}")
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

    `{thing}` in one stands for what a block `-- columns: thing` lists, `{t.thing}` for that with `t.` before
    each, `{:thing}` for the parameters of these names. Each is read when it is asked for: a short command
    asks a handful of two hundred. Raises SqlFormatError for text before the first name and a name twice; when
    asked, for a block without a sentence, for columns that are listed nowhere, or with any other number of
    statements than one.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        head, *parts = _HEAD.split(text)
        if not _is_nothing(head):
            raise SqlFormatError("there is SQL before the first `-- name: ...`")
        self._blocks: dict[str, str] = {}
        self._columns: dict[str, str] = {}
        for kind, name, block in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            known = self._blocks if kind == "name" else self._columns
            if name in known:
                raise SqlFormatError(f"{'query' if kind == 'name' else kind} {name} stands there twice")
            known[name] = block

    def __missing__(self, name: str) -> str:
        found = statements(_COLUMNS.sub(self._listed, _told(name, self._blocks[name])))
        if len(found) != 1:
            raise SqlFormatError(f"query {name} has {len(found)} statements")
        self[name] = query = found[0].removesuffix(";")
        return query

    def _listed(self, place: re.Match[str]) -> str:
        table, colon, name = place.groups()
        before = f"{table}." if table else colon
        if name not in self._columns:
            raise SqlFormatError(f"there are no columns {name!r}")
        listed = " ".join(_told(name, self._columns[name]).split())
        return ", ".join(f"{before}{column}" for column in listed.split(", ")) if before else listed

    def all(self) -> dict[str, str]:
        """Return all of them."""
        return {name: self[name] for name in self._blocks}


def _told(name: str, block: str) -> str:
    """Return what a block holds behind its sentence."""
    sentence = _COMMENT_LINES.match(block)
    if sentence is None or "--" not in sentence.group():
        raise SqlFormatError(f"block {name} has no sentence that says what it is for")
    return block[sentence.end() :]


def _is_nothing(text: str) -> bool:
    return all(not line or line.startswith("--") for line in map(str.strip, text.splitlines()))
