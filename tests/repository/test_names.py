"""One word, one meaning."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = sorted(file for folder in ROOT.glob("*/jobwire") for file in folder.rglob("*.py"))


def test_a_class_name_is_used_once() -> None:
    """No two classes of the product have one name, underscore or not: a reader who knows one knows it."""
    places: dict[str, list[str]] = defaultdict(list)
    for file in PRODUCT:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
