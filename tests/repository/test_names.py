"""One word, one meaning."""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = sorted(file for folder in ROOT.glob("*/jobwire") for file in folder.rglob("*.py"))
WORDS = re.findall(r"^\| \*\*(.+?)\*\* \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)


def test_a_class_name_is_used_once() -> None:
    """No two classes of the product have one name, underscore or not: a reader who knows one knows it."""
    places: dict[str, list[str]] = defaultdict(list)
    for file in PRODUCT:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_the_glossary_is_in_order() -> None:
    """Each word stands once in the glossary, where the alphabet puts it."""
    assert WORDS
    assert sorted(set(WORDS)) == WORDS


def test_the_glossarys_words_are_used() -> None:
    """What the glossary explains, the product says: in a name, a message or a docstring."""
    text = " ".join(" ".join(file.read_text() for file in PRODUCT).lower().split())
    assert [word for word in WORDS if not re.search(rf"(?<![a-z]){word.replace(' ', '[ _]')}", text)] == []
