"""No regular expression of the product takes more than linear time, whatever text it is given.

Found by syntax in every module: a new pattern is judged without being named here.
"""

import re
from pathlib import Path

import pytest

from jobwire.testing.patterns import Use, is_slow, uses_in

ROOT = Path(__file__).resolve().parents[2]
COMPONENTS = sorted(path for path in ROOT.glob("*/jobwire/*/") if (path / "__init__.py").exists())


def _module(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts[1:]
    return ".".join(parts)


def _uses() -> list[Use]:
    files = [file for path in COMPONENTS for file in sorted(path.rglob("*.py"))]
    return [
        use._replace(place=f"{file.relative_to(ROOT).parts[0]}/{use.place}")
        for file in files
        if re.search(r"^\s*import re$", file.read_text(), re.MULTILINE)
        for use in uses_in(file, _module(file))
    ]


USES = _uses()


@pytest.mark.parametrize("use", USES, ids=[use.place for use in USES])
def test_a_pattern_takes_linear_time(use: Use) -> None:
    """Four times the text takes about four times the time: no stranger can stop a process with a line."""
    slow_on = is_slow(use.pattern, use.methods)
    assert slow_on is None, f"{use.pattern.pattern!r} is more than linear on {slow_on}"


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"[\w-]*secret", "search"),
        (r"\b[\w-]*(?:password|secret|token)[\w-]*\s*[=:]", "finditer"),
        (r"\beyJ[A-Za-z0-9_-]{8,}\.x", "search"),
        (r"^\s*::(progress|permission)\s+(.*\S)\s*$", "match"),
        (r"\s+$", "sub"),
        (r"(a+)+b", "match"),
        (r"(?:a|aa)+b", "fullmatch"),
        (r"Bound to .* http", "search"),
        (rb"(\d+,?)*;", "match"),
    ],
)
def test_slow_patterns_are_told(pattern: str | bytes, method: str) -> None:
    """The judge knows the usual mistakes: overlapping or nested repetitions, a long way to a missing end."""
    assert is_slow(re.compile(pattern), (method,)) is not None


def test_the_redactor_is_among_the_judged() -> None:
    """The patterns that are compiled where they are needed, inside functions, are found too."""
    assert sum(use.place.startswith("core/redaction.py") for use in USES) >= len(
        ("paths", "secrets", "tokens")
    )
