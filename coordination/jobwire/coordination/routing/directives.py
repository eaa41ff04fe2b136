r"""Directives: lines of a receipt that ask for a message to be sent. Pure.

    ::bus-send{to="reviewer" intent="review" risk="low" message="see the diff" accept="make test"}

A line counts where it begins with the word and stands outside a code fence (CommonMark 0.31, 4.5). Values are
quoted; `\"` and `\\` are the only escapes, and nothing in a value is read again: a `}` is a character. Who
sends, in which run and for which task, is the receipt's matter and never the text's.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.message import split_words
from jobwire.core.bounds import check_line
from jobwire.core.errors import InvalidInputError
from jobwire.core.topics import check_agent

if TYPE_CHECKING:
    from collections.abc import Iterator

WORD = "::bus-send{"
EVERYBODY_ELSE = frozenset({"all", "*"})
MAX_DIRECTIVES = 64
MAX_LINE = 16 * 1024
MAX_TEXT = 4096
_MAX_WORD = 64
_KEYS = ("to", "intent", "risk", "message", "accept", "task")
_NEEDED = ("to", "intent", "message")
# Anything but a quote, a backslash and control characters; a backslash only before one of the two.
_PAIR = re.compile(r'[ \t]*+,?[ \t]*+([a-z]++)="((?:[^"\\\x00-\x1f\x7f-\x9f\u2028\u2029]|\\["\\])*+)"')
_END = re.compile(r"[ \t]*+\}[ \t]*+")
_ESCAPE = re.compile(r'\\(["\\])')
_INTENT = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*+")
# At most three blanks, then three or more of one character; behind the backticks no other backtick.
_FENCE = re.compile(r" {0,3}(`{3,}+(?=[^`]*+$)|~{3,}+)(.*)")


class Directive(NamedTuple):
    """One message that a receipt asks for. `to` () is everybody else; `ordinal` counts the lines, from 1."""

    ordinal: int
    line: str
    to: tuple[str, ...]
    intent: str
    message: str
    risk: str = ""
    accept: tuple[str, ...] = ()
    task: str = ""


class Malformed(NamedTuple):
    """A line that begins like a directive and is none, and why."""

    ordinal: int
    line: str
    why: str


def read_directives(body: str) -> Iterator[Directive | Malformed]:
    """Yield what the lines of a body ask for, in order, and what is no directive though it begins as one."""
    if WORD not in body:
        return
    fence = ""
    ordinal = 0
    for line in body.split("\n"):
        line = line.removesuffix("\r")  # noqa: PLW2901 - Windows' line end
        fence, inside = _after(fence, line)
        if inside or not line.startswith(WORD):
            continue
        ordinal += 1
        if ordinal > MAX_DIRECTIVES:
            yield Malformed(ordinal, "", f"a receipt has at most {MAX_DIRECTIVES} directives")
            return
        yield _read(ordinal, line)


def open_fence(lines: list[str], fence: str = "") -> str:
    """Return the fence that is open behind the lines, "" where none is."""
    for line in lines:
        fence, _ = _after(fence, line)
    return fence


def id_of(receipt_id: str, directive: Directive | Malformed) -> str:
    """Return the id of what a directive brings about: the same for the same (receipt, ordinal, text)."""
    said = f"{receipt_id}\0{directive.ordinal}\0{directive.line}"
    return "d-" + hashlib.sha256(said.encode(errors="surrogatepass")).hexdigest()[:40]


def _after(fence: str, line: str) -> tuple[str, bool]:
    """Return the fence that is open behind a line, and whether the line belongs to a fenced block."""
    found = _FENCE.match(line)
    if found is None:
        return fence, bool(fence)
    marks, rest = found[1], found[2]
    if not fence:
        return marks, True
    closes = marks[0] == fence[0] and len(marks) >= len(fence) and not rest.strip(" \t")
    return "" if closes else fence, True


def _read(ordinal: int, line: str) -> Directive | Malformed:
    shown = line[:MAX_TEXT]
    if len(line) > MAX_LINE:
        return Malformed(ordinal, shown, f"it has {len(line)} characters, {MAX_LINE} are allowed")
    values: dict[str, list[str]] = {}
    position = len(WORD)
    while found := _PAIR.match(line, position):
        key, value = found[1], _ESCAPE.sub(r"\1", found[2])
        if key not in _KEYS:
            return Malformed(ordinal, shown, f"{key} is no key; known: {', '.join(_KEYS)}")
        if key in values and key != "accept":
            return Malformed(ordinal, shown, f"{key} is given twice")
        values.setdefault(key, []).append(value)
        position = found.end()
    if _END.fullmatch(line, position) is None:
        return Malformed(ordinal, shown, f"it cannot be read from character {position + 1} on")
    for key in _NEEDED:
        if not any(one.strip() for one in values.get(key, ())):
            return Malformed(ordinal, shown, f"it has no {key}")
    try:
        return _checked(ordinal, line, values)
    except InvalidInputError as error:
        return Malformed(ordinal, shown, error.message)


def _checked(ordinal: int, line: str, values: dict[str, list[str]]) -> Directive:
    def one(key: str) -> str:
        return values.get(key, [""])[0].strip()

    named = split_words(one("to"))
    everybody = any(name in EVERYBODY_ELSE for name in named)
    if not named:
        raise InvalidInputError("it is for nobody")
    if not everybody:
        for name in named:
            check_agent(name)
    intent = one("intent")
    if len(intent) > _MAX_WORD or _INTENT.fullmatch(intent) is None:
        raise InvalidInputError(f"{intent!r:.80} is no intent: it is one word")
    check_line("risk", one("risk"), _MAX_WORD, empty=True)
    check_line("task", one("task"), _MAX_WORD * 4, empty=True)
    for text in (one("message"), *values.get("accept", ())):
        check_line("text", text, MAX_TEXT)
    to = () if everybody else tuple(dict.fromkeys(named))
    accept = tuple(values.get("accept", ()))
    return Directive(ordinal, line, to, intent, one("message"), one("risk"), accept, one("task"))
