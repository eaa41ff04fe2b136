"""What README and docs name exists: commands, make targets, files."""

import re
from pathlib import Path

import pytest

from jobwire.cli.main import COMMANDS
from jobwire.delivery.outbox import RESEND_SECONDS

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "*/README.md", "*/*/README.md")
    for path in ROOT.glob(pattern)
    if not {".venv", "var"} & set(path.relative_to(ROOT).parts)
)
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_names_only_what_exists(document: Path) -> None:
    """Every `jobwire` command, `make` target and relative link in a document is real."""
    text = document.read_text()
    commands = set(re.findall(r"(?:^\$ |`)jobwire ([a-z]+)", text, re.MULTILINE))
    targets = set(re.findall(r"(?:^\s*|`)make ([a-z]+)", text, re.MULTILINE)) - {"sure"}
    links = {link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text)}
    assert commands <= set(COMMANDS)
    assert targets <= TARGETS
    assert [
        link for link in links if link and "://" not in link and not (document.parent / link).exists()
    ] == []


def test_the_readme_of_delivery_has_the_codes_figures() -> None:
    """When unconfirmed events are sent again is the same in README and code."""
    times = ", ".join(f"{RESEND_SECONDS * 2**repeats:g} s" for repeats in range(3))
    assert f"sent again after {times} ..." in (ROOT / "delivery" / "README.md").read_text()


def test_every_command_is_explained() -> None:
    """README or a component's README mentions each command."""
    text = "".join(document.read_text() for document in DOCUMENTS)
    assert [name for name in COMMANDS if f"jobwire {name}" not in text] == []
