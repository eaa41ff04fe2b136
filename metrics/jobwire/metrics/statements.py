"""The SQL files: `schema.sql` and `facts.sql` as a list of statements, `queries.sql` by name."""

import re
from collections.abc import Iterator
from functools import cache
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
# What stands before the first view of a file makes tables.
_VIEWS = "CREATE VIEW"
# What each shard has rows of. `job_states` joins two of them, which stand in the same shard.
COUNTED = (
    *("progress", "window_counts", "rejection_counts", "histograms", "fact_counts", "usage_counts"),
    *("job_totals", "job_facts"),
)
_COMMENT = re.compile(r"--[^\n]*")


@cache
def queries() -> dict[str, str]:
    """Return every statement of queries.sql by its name."""
    parts = _NAME.split(_text("queries.sql"))
    return {name: _COMMENT.sub("", body).strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def schema() -> Iterator[str]:
    """Yield the statements that make the tables, then the views; none holds a semicolon inside."""
    texts = [text.partition(_VIEWS) for text in map(_text, ("schema.sql", "facts.sql"))]
    parts = [tables for tables, _, _ in texts] + [mark + views for _, mark, views in reversed(texts)]
    for statement in _COMMENT.sub("", "".join(parts)).split(";"):
        if statement.strip():
            yield statement.strip()


def _text(name: str) -> str:
    return resources.files("jobwire.metrics").joinpath(name).read_text(encoding="utf-8")
