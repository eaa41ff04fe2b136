"""What a command said last: the file that it wrote as its receipt, else the end of its output."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from jobwire.coordination.routing.directives import open_fence
from jobwire.runner.sanitizer import OutputSanitizer

MAX_WORDS = 16 * 1024
MAX_RECEIPT = 1024 * 1024
_CHUNK = 1 << 20
# What follows a carriage return is shown on a line of its own.
_FENCE = re.compile(rb"(?:^|\r) {0,3}(?:`{3}|~{3})[^\r\n]*+", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[[0-9;:]*+m")
_MAX_FENCES = 100_000


class LastWords(NamedTuple):
    """The words, and what they come to in one line."""

    text: str
    summary: str


def last_words(receipt: Path, output: Path, *, begin: int = 0) -> LastWords:
    """Return what the command left behind; `begin` is where its output begins in the log."""
    text = _plain(_receipt(receipt)).strip("\n")
    if text:
        return LastWords(text, _first_line(text.splitlines()))
    text = _plain(_end_of(output, begin)).strip("\n")
    return LastWords(text, _first_line(reversed(text.splitlines())))


def _receipt(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    found = b""
    try:
        while len(found) < MAX_RECEIPT and (piece := os.read(descriptor, MAX_RECEIPT - len(found))):
            found += piece
    except OSError:
        return b""  # a directory, or something else that is not read
    finally:
        os.close(descriptor)
    return found


def _end_of(path: Path, begin: int) -> bytes:
    """Return the last lines of a log, from a whole line on.

    Where they begin inside a code fence they say so: what was quoted in the output stays quoted.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = max(begin, size - MAX_WORDS)
            file.seek(start)
            words = file.read(MAX_WORDS)
            if start == begin:
                return words
            cut = words.find(b"\n") + 1
            fence = _fence_at(file.fileno(), begin, start + cut)
    except OSError:
        return b""
    return (f"{fence}\n".encode() if fence else b"") + words[cut:]


def _fence_at(descriptor: int, begin: int, end: int) -> str:
    """Return the fence that is open at an offset of the log, "" where none is."""
    fence, found, rest = "", 0, b""
    while begin < end and found < _MAX_FENCES:
        block = rest + os.pread(descriptor, min(_CHUNK, end - begin), begin)
        begin += len(block) - len(rest)
        whole = block if begin >= end else block[: block.rfind(b"\n") + 1]
        # Of a line without an end no more is kept than tells a fence.
        rest = block[len(whole) :][:64]
        for match in _FENCE.finditer(whole):
            line = match[0][:1024].lstrip(b"\r").decode(errors="replace")
            fence = open_fence([line], fence)
            found += 1
    # Whoever prints so many of them gets what follows quoted.
    return fence or ("```" if found >= _MAX_FENCES else "")


def _plain(raw: bytes) -> str:
    shown = OutputSanitizer()
    return _COLOUR.sub("", (shown.feed(raw) + shown.finish())).replace("\0", "")


def _first_line(lines: Iterable[str]) -> str:
    for line in lines:
        text = "".join(char for char in line if char.isprintable()).strip()
        # Fences, directives and what was said to us are not what it comes to.
        if text and not text.startswith(("```", "~~~", "::")):
            return text[:1024]
    return ""
