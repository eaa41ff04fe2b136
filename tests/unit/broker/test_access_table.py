"""The page about who may do what."""

from pathlib import Path

from jobwire.broker.access_table import ALLOWED, MEANING, Action, Identity, as_markdown, as_rows

ROOT = Path(__file__).parents[3]


def test_the_page_is_current() -> None:
    """docs/security.md is what the command prints from the table's data."""
    assert (ROOT / "docs" / "security.md").read_text(encoding="utf-8") == as_markdown(), (
        "run: jobwire broker access-table --markdown > docs/security.md"
    )


def test_the_table_is_complete() -> None:
    """Every identity and every action has its cell and its meaning."""
    assert set(ALLOWED) == set(Identity)
    assert set(MEANING) == set(Action)
    assert [len(row) for row in as_rows()] == [1 + len(Action)] * len(Identity)
