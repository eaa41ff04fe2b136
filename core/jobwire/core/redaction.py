"""What must not be said in `detail`: absolute paths, and anything that looks like a secret."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from jobwire.core.errors import InvalidInputError

MASK = "[redacted]"
_MIN_SECRET = 6
_SECRET_NAME = re.compile(r"(PASS|TOKEN|SECRET|KEY|CREDENTIAL|AUTH|COOKIE)", re.IGNORECASE)

# (kind, pattern). A path needs two levels or a level of two letters, so that "5 MB /s" is none; a
# preceding letter, digit, colon or slash makes it a fraction, a relative path or a URL.
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("path", re.compile(r"(?<![\w:/.~-])~?/(?:[\w.@+-]{2,}|[\w.@+-]+/[\w.@+-]+)(?:/[\w.@+-]*)*")),
    ("path", re.compile(r"(?<!\w)~[\w-]*/[^\s'\"]*")),
    ("path", re.compile(r"(?<!\w)file://[^\s'\"]+")),
    ("path", re.compile(r"(?<!\w)[A-Za-z]:\\[^\s'\"]*")),
    (
        "secret",
        re.compile(
            r"(?i)\b[\w-]*(?:password|passwd|secret|token|api[_-]?key|credential)[\w-]*[\"']?\s*[=:]\s*"
            r"(?:\"[^\"]*\"|'[^']*'|[^\s,;]+)"
        ),
    ),
    ("secret", re.compile(r"(?i)\b(?:bearer|basic)\s+[A-Za-z0-9+/_.=-]{8,}")),
    ("secret", re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    ("secret", re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|sk-)[A-Za-z0-9_-]{16,}")),
    ("secret", re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*")),
    ("secret", re.compile(r"(?<=://)[^\s/@:]+:[^\s/@]+(?=@)")),
    ("secret", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")),
)


class Leak(NamedTuple):
    """One place in a text that must not leave the host: [start, end) and what it is."""

    kind: str
    start: int
    end: int


def find_leaks(text: str, environ: Mapping[str, str]) -> list[Leak]:
    """Return the leaks in `text`, in order; `environ` supplies the values of secret-looking variables."""
    leaks = [Leak(kind, *match.span()) for kind, pattern in _PATTERNS for match in pattern.finditer(text)]
    for name, value in environ.items():
        if len(value) >= _MIN_SECRET and value in text and _SECRET_NAME.search(name):
            leaks.extend(
                Leak("environment", match.start(), match.end())
                for match in re.finditer(re.escape(value), text)
            )
    return sorted(leaks, key=lambda leak: (leak.start, leak.end))


def redact(text: str, environ: Mapping[str, str]) -> str:
    """Return `text` with every leak replaced by MASK."""
    parts: list[str] = []
    position = 0
    for leak in find_leaks(text, environ):
        if leak.end <= position:
            continue
        if leak.start >= position:
            parts += [text[position : leak.start], MASK]
        position = leak.end
    return "".join(parts) + text[position:]


def refuse_leaks(text: str, environ: Mapping[str, str]) -> None:
    """Raise InvalidInputError naming the kinds of leak in `text`, never the leak itself."""
    kinds = sorted({leak.kind for leak in find_leaks(text, environ)})
    if kinds:
        raise InvalidInputError(
            f"the detail holds what must not be published: {', '.join(kinds)}",
            hint="use a relative path or leave it out; --redact replaces it",
            kinds=kinds,
        )
