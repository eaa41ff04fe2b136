"""A session folder: its places, and messages and receipts as files with a head of fields. Pure.

bus/inbox/ROLE/ID.md      what a role has to do
bus/outbox/ID.ROLE.md     receipts
bus/deadletter/ROLE/      what was given up
state/processing/ID.ROLE.lockdir, state/done/ID.ROLE.ok, state/archive/ROLE/   what became of it
state/tasks/tasks.json    the plan

The head stands between two lines `---`: a field a line, `key: value`, quoted where it is no plain word. It
is read as data and nothing more: a field that stands there twice, a line that is none and a value that YAML
would take for a structure are refused, so a line break in a text can never become a field.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from jobwire.core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

INBOX, OUTBOX, DEAD = "bus/inbox", "bus/outbox", "bus/deadletter"
PROCESSING, DONE, ARCHIVE = "state/processing", "state/done", "state/archive"
TASKS = "state/tasks/tasks.json"
MAX_FILE = 17 * 1024 * 1024
MAX_FIELDS = 64
_MARK = "---"
_FIELD = re.compile(r"([A-Za-z_][A-Za-z0-9_-]{0,63}+):(?: (.*))?")
_ITEM = re.compile(r" {0,8}- (.+)")
_PLAIN = re.compile(r"[A-Za-z0-9_/][A-Za-z0-9_./ +-]*+")
# What begins something else than a text in YAML 1.2 (5.3, indicator characters).
_INDICATORS = frozenset("[]{},&*!|>%@`\"'#?")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")

Field = str | list[str]


class Page(NamedTuple):
    """A file: its fields and its text."""

    fields: dict[str, Field]
    body: str

    def text(self, key: str) -> str:
        """Return a field as one text, "" where it is not there; raises InvalidInputError for a list."""
        value = self.fields.get(key, "")
        if isinstance(value, list):
            raise InvalidInputError(f"{key} is a list")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a field as a list of texts."""
        value = self.fields.get(key, [])
        return tuple(value) if isinstance(value, list) else ((value,) if value else ())


def file_name(*parts: str) -> str:
    """Return what a file is called: no part of it leaves its folder, and each can be told apart."""
    return ".".join(quote(part, safe="") for part in parts)


def write_page(fields: Mapping[str, str | int | Sequence[str]], body: str) -> str:
    """Return a file's text; `read_page` returns the same fields and body."""
    lines = [_MARK]
    for key, value in fields.items():
        if isinstance(value, str | int):
            lines.append(f"{key}: {_quoted(str(value))}")
        elif value:
            lines += [f"{key}:", *(f"  - {_quoted(one)}" for one in value)]
        else:
            lines.append(f"{key}: []")
    return "\n".join([*lines, _MARK, "", body])


def read_page(text: str) -> Page:
    """Return what a file says; raises InvalidInputError naming the line that is not understood."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != _MARK:
        raise InvalidInputError("line 1: it does not begin with ---")
    fields: dict[str, Field] = {}
    key = ""
    for number, line in enumerate(lines[1:], start=2):
        if line.rstrip() == _MARK:
            body = lines[number:]
            return Page(fields, "\n".join(body[1:] if body and not body[0].strip() else body))
        try:
            key = _take_line(fields, key, line)
        except InvalidInputError as error:
            raise InvalidInputError(f"line {number}: {error.message}") from error
        if len(fields) > MAX_FIELDS:
            raise InvalidInputError(f"it has more than {MAX_FIELDS} fields")
    raise InvalidInputError("its head has no end: a line --- is missing")


def _take_line(fields: dict[str, Field], key: str, line: str) -> str:
    """Take one line of the head; return the key whose list may go on in the next line."""
    if _CONTROL.search(line):
        raise InvalidInputError("it holds a control character")
    if not line.strip() or line.startswith("#"):
        return ""
    item = _ITEM.fullmatch(line)
    if item is not None and key:
        held = fields[key]
        if isinstance(held, list):
            held.append(_value(item[1]))
            return key
    found = _FIELD.fullmatch(line)
    if found is None:
        raise InvalidInputError(f"{line!r:.80} is no field")
    key, value = found[1], (found[2] or "").strip()
    if key in fields:
        raise InvalidInputError(f"{key} stands there twice")
    if not value:
        fields[key] = []
        return key
    fields[key] = _list(value) if value.startswith("[") else _value(value)
    return ""


def _list(text: str) -> list[str]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{text!r:.80} is no list of quoted texts") from error
    if not all(isinstance(one, str) and not _CONTROL.search(one) and "\n" not in one for one in found):
        raise InvalidInputError(f"{text!r:.80} is no list of texts of one line")
    return list(found)


def _value(text: str) -> str:
    text = text.strip()
    if text.startswith('"'):
        try:
            value = json.loads(text)
        except ValueError as error:
            raise InvalidInputError(f"{text!r:.80} is not quoted right") from error
    elif text.startswith("'"):
        inner = text[1:-1]
        if len(text) < 2 or not text.endswith("'") or "'" in inner.replace("''", ""):  # noqa: PLR2004 - quotes
            raise InvalidInputError(f"{text!r:.80} is not quoted right")
        value = inner.replace("''", "'")
    else:
        if text[:1] in _INDICATORS or ": " in text or " #" in text or text.startswith("- "):
            raise InvalidInputError(f"{text!r:.80} is to be quoted")
        value = text
    if _CONTROL.search(value) or "\n" in value:
        raise InvalidInputError("a value has a line break or a control character")
    return str(value)


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text) and text == text.strip():
        return text
    return json.dumps(text, ensure_ascii=False)
