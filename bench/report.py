"""Writes docs/performance.md from bench/results/*.json: every figure in it has its command beside it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "performance.md"
# A list that is longer than this is a series: its quarters are shown.
_LONG = 12
HEAD = """\
<!-- Made by `make bench` from bench/results/*.json; do not edit. -->
# Performance

Each section was measured side by side in one run on one shared machine. Machines differ and neighbours are
noisy: read the ratios, not the milliseconds. `make bench` repeats all of it, the command at each section one.
"""


def main() -> int:
    """Write the document; return 0."""
    results = sorted((ROOT / "bench" / "results").glob("*.json"))
    sections = (section(path.stem, json.loads(path.read_text())) for path in results)
    TARGET.write_text(HEAD + "".join(sections))
    print(f"wrote {TARGET.relative_to(ROOT)}")
    return 0


def section(name: str, result: dict[str, Any]) -> str:
    """Return one benchmark as Markdown."""
    lines = [f"\n## {name}\n", f'`make bench ARGS="{name}"`\n']
    if "what" in result:
        lines.append(f"{str(result['what']).rstrip('.')}.\n")
    plain = {
        key: value for key, value in result.items() if key != "what" and not isinstance(value, dict | list)
    }
    if plain:
        lines.append("; ".join(f"{label(key)}: {cell(value)}" for key, value in plain.items()) + "\n")
    for key, value in result.items():
        if isinstance(value, dict | list):
            lines += [f"**{label(key)}**\n", *table(value), ""]
    return "\n".join(lines)


def table(value: dict[str, Any] | list[Any]) -> Iterator[str]:
    """Yield the rows of a table: of a mapping of mappings, of a list of mappings, or of plain pairs."""
    rows = (
        value.items() if isinstance(value, dict) else [(str(n), row) for n, row in enumerate(value, start=1)]
    )
    nested = [(key, flat(row)) for key, row in rows if isinstance(row, dict)]
    if len(nested) < len(rows):
        yield "| | |\n|---|---:|"
        plain = flat({str(key): row for key, row in rows})
        yield from (f"| {label(key)} | {cell(row)} |" for key, row in plain.items())
        return
    columns = list(dict.fromkeys(column for _, row in nested for column in row))
    yield "| | " + " | ".join(label(column) for column in columns) + " |"
    yield "|---|" + "---:|" * len(columns)
    for key, row in nested:
        yield f"| {label(str(key))} | " + " | ".join(cell(row.get(column, "")) for column in columns) + " |"


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return `row` with inner mappings' keys joined to their parents'."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            found |= {f"{key} {inner}": item for inner, item in flat(value).items()}
        else:
            found[key] = value
    return found


def label(key: str) -> str:
    """Return a key as words."""
    return key.replace("_", " ")


def cell(value: object) -> str:
    """Return a value as people read it; of a long list its quarters."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"
    if isinstance(value, list):
        if len(value) > _LONG:
            last = len(value) - 1
            return cell([value[last * part // 4] for part in range(5)]) + " (over time)"
        return ", ".join(cell(item) for item in value)
    return str(value)


if __name__ == "__main__":
    raise SystemExit(main())
