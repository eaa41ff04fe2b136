"""What must not leave the host in a text: absolute paths, and anything that looks like a secret.

The text may be a stranger's (a command's output, a title), so looking costs time linear in its length,
and no more for many secret-looking variables than for few: every pattern here takes each character at
most a few times (possessive quantifiers; a repository test times them on hostile texts).
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

PATH, SECRET, ENVIRONMENT = "path", "secret", "environment"
MASK = "[redacted]"
# Stands for the folders of a path that was shortened. Not a part of any path that is looked for.
_CUT = "…"
_MIN_SECRET = 6
# A longer value is looked for in pieces of this length, so that no place in a text costs more than this.
_PIECE = 256
_SECRET_NAMES = ("PASS", "TOKEN", "SECRET", "KEY", "CREDENTIAL", "AUTH", "COOKIE")
_ASSIGNED_NAMES = ("password", "passwd", "secret", "token", "apikey", "api_key", "api-key", "credential")
# Masking can put two harmless parts side by side; more often than this it does not.
_ROUNDS = 3


class Leak(NamedTuple):
    """One place in a text that must not leave the host: [start, end) and what it is."""

    kind: str
    start: int
    end: int


class Redactor:
    """Finds and replaces what must not be said; `environ` has the secret-looking variables. Thread-safe."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._values = _SecretValues(environ)

    def find(self, text: str) -> list[Leak]:
        """Return the leaks in `text`, in order; they may overlap."""
        leaks = [*_paths(text), *_secrets(text), *self._values.find(text)]
        return sorted(leaks, key=lambda leak: (leak.start, leak.end))

    def find_secrets(self, text: str) -> list[Leak]:
        """Return the leaks in `text` that are not paths."""
        return sorted([*_secrets(text), *self._values.find(text)], key=lambda leak: (leak.start, leak.end))

    def redact(self, text: str) -> str:
        """Return `text` with paths cut to their last part and secrets replaced by MASK."""
        return _cleaned(text, self.find)

    def mask_secrets(self, text: str) -> str:
        """Return `text` with secrets replaced by MASK; paths stay."""
        return _cleaned(text, self.find_secrets)


def names_secret(name: str) -> bool:
    """Tell whether what is assigned to `name` is to be taken for a secret, as in `password=...`."""
    low = name.lower()
    return any(word in low for word in _ASSIGNED_NAMES)


def _cleaned(text: str, find: Callable[[str], list[Leak]]) -> str:
    for _ in range(_ROUNDS):
        leaks = find(text)
        if not leaks:
            return text
        text = _replaced(text, leaks)
    return MASK if find(text) else text


def _replaced(text: str, leaks: list[Leak]) -> str:
    parts: list[str] = []
    position = 0
    for leak in _merged(leaks):
        place = text[leak.start : leak.end]
        parts += [text[position : leak.start], _shortened(place) if leak.kind == PATH else MASK]
        position = leak.end
    return "".join(parts) + text[position:]


def _merged(leaks: list[Leak]) -> list[Leak]:
    """Return leaks that do not overlap; a path that overlaps a secret is one."""
    merged: list[Leak] = []
    for leak in leaks:
        last = merged[-1] if merged else None
        if last is not None and (leak.start < last.end or _continues(last, leak)):
            kind = last.kind if last.kind == leak.kind else SECRET
            merged[-1] = Leak(kind, last.start, max(last.end, leak.end))
        else:
            merged.append(leak)
    return merged


def _continues(last: Leak, leak: Leak) -> bool:
    """Tell whether `leak` is the next piece of a long value."""
    return last.kind == leak.kind == ENVIRONMENT and leak.start == last.end


def _shortened(path: str) -> str:
    _, separator, name = path.replace("\\", "/").rstrip("/").rpartition("/")
    return f"{_CUT}/{name}" if separator else _CUT


def _paths(text: str) -> Iterator[Leak]:
    """Find absolute paths, those of a home, file URLs and paths with a drive letter.

    A path needs two levels or a level of two letters, so that "5 MB /s" is none; a preceding letter,
    digit, colon or slash makes it a fraction, a relative path or a URL.
    """
    # Most texts have none of these characters: a pattern costs more to compile than a text to look at.
    if "/" in text:
        for found in re.finditer(
            r"(?<![\w:/.~…-])~?+/(?:[\w.@+-]{2,}+|[\w.@+-]++/[\w.@+-]++)(?:/[\w.@+-]*+)*+", text
        ):
            yield Leak(PATH, *found.span())
        if "~" in text:
            for found in re.finditer(r"(?<!\w)~[\w-]*+/[^\s'\"]*+", text):
                yield Leak(PATH, *found.span())
        if "file://" in text:
            for found in re.finditer(r"(?<!\w)file://[^\s'\"]++", text):
                yield Leak(PATH, *found.span())
    if ":\\" in text:
        for found in re.finditer(r"(?<!\w)[A-Za-z]:\\[^\s'\"]*+", text):
            yield Leak(PATH, *found.span())


def _secrets(text: str) -> Iterator[Leak]:
    """Find what is called a secret, what has the form of a known kind of token, and private keys."""
    if "=" in text or ":" in text:
        yield from _assignments(text)
    if "://" in text:
        # To the last @ before the path: a password may hold one. A user's name may be missing.
        for found in re.finditer(r"(?<=://)[^\s/@:]*+:[^\s/]+(?=@)", text):
            yield Leak(SECRET, *found.span())
    if "-----BEGIN " in text:
        yield from _private_keys(text)
    yield from _tokens(text)


def _tokens(text: str) -> Iterator[Leak]:
    """Find tokens by their form: HTTP credentials, cloud and forge keys, JSON Web Tokens."""
    low = text.lower()
    if "bearer" in low or "basic" in low:
        for found in re.finditer(r"(?i)\b(?:bearer|basic)\s++[A-Za-z0-9+/_.=-]{8,}+", text):
            yield Leak(SECRET, *found.span())
    if "AKIA" in text or "ASIA" in text:
        for found in re.finditer(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", text):
            yield Leak(SECRET, *found.span())
    if "_" in text or "-" in text:
        for found in re.finditer(
            r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|sk-)[A-Za-z0-9_-]{16,}+", text
        ):
            yield Leak(SECRET, *found.span())
    if "eyJ" in text:
        # Where the first of several beginnings in a run is none, the others are none either: they end alike.
        for found in re.finditer(
            r"(?<![A-Za-z0-9_-])(?>[A-Za-z0-9_-]*?\b(?=eyJ))"
            r"(eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]*+)",
            text,
        ):
            yield Leak(SECRET, *found.span(1))


def _assignments(text: str) -> Iterator[Leak]:
    """Find `password=...` and the like: a name, perhaps in quotes, = or :, and a value."""
    value = re.compile(
        # Quoted; with a quote that nothing closes, to the end of the line; or one word.
        r"\s*+(?:\"[^\"]*+\"|'[^']*+'|[\"'][^\n]++|[^\s,;]++)"
    )
    done = 0
    for name in re.finditer(r"(?<![\w-])-*+(\w[\w-]*+)[\"']?+\s*+[=:]", text):
        if name.start(1) < done or not names_secret(name[1]):
            continue
        found = value.match(text, name.end())
        if found is not None:
            done = found.end()
            yield Leak(SECRET, name.start(1), done)


def _private_keys(text: str) -> Iterator[Leak]:
    """Find private keys in PEM form, to their last line or, where that is missing, to the end."""
    done = 0
    for head in re.finditer(r"-----BEGIN [A-Z ]*PRIVATE KEY-----", text):
        if head.start() < done:
            continue
        foot = text.find("-----END ", head.end())
        end = text.find("-----", foot + len("-----END ")) if foot >= 0 else -1
        done = end + len("-----") if end >= 0 else len(text)
        yield Leak(SECRET, head.start(), done)


class _SecretValues:
    """The values of secret-looking variables, in an order in which a text is looked up at once."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        pieces: set[str] = set()
        for name, value in environ.items():
            # A value that the mask holds would be found again in what was masked.
            if len(value) >= _MIN_SECRET and _secret_name(name) and value not in MASK:
                pieces.update(_pieces(value))
        self._sorted = sorted(pieces)
        self._beginnings = frozenset(piece[:_MIN_SECRET] for piece in pieces)
        # For each value the shortest one that it begins with.
        self._shortest: list[str] = []
        for piece in self._sorted:
            shortest = self._shortest[-1] if self._shortest else piece
            self._shortest.append(shortest if piece.startswith(shortest) else piece)

    def find(self, text: str) -> Iterator[Leak]:
        """Find every value in `text`."""
        if not self._sorted:
            return
        for start in range(len(text) - _MIN_SECRET + 1):
            if text[start : start + _MIN_SECRET] in self._beginnings:
                length = self._length(text[start : start + _PIECE])
                if length:
                    yield Leak(ENVIRONMENT, start, start + length)

    def _length(self, rest: str) -> int:
        """Return how far `rest` is a value from its beginning; 0 where it begins with none.

        Everything that `rest` begins with stands before it in the order, with only each other's
        extensions in between; so the last one before it begins with all of those.
        """
        place = bisect_right(self._sorted, rest) - 1
        if place < 0 or not rest.startswith(self._shortest[place]):
            return 0
        value = self._sorted[place]
        if rest.startswith(value):
            return len(value)
        return bisect_left(range(len(value)), True, key=lambda last: rest[: last + 1] != value[: last + 1])


def _secret_name(name: str) -> bool:
    upper = name.upper()
    return any(word in upper for word in _SECRET_NAMES)


def _pieces(value: str) -> Iterator[str]:
    for start in range(0, len(value) - _PIECE + 1, _PIECE):
        yield value[start : start + _PIECE]
    yield value[-_PIECE:]
