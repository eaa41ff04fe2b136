"""Documents that are made from code are current, and what others say of it is true."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from jobwire.hooks import claude, codex, opencode
from jobwire.hooks.doctor import SEEN
from jobwire.hooks.kinds import NAMES

ROOT = Path(__file__).resolve().parents[2]


def test_rendered_documents_are_current() -> None:
    """`make docs` would change nothing: asyncapi.yaml, lifecycle.md and exit-codes.md tell the truth."""
    command = [sys.executable, str(ROOT / "scripts" / "render_docs.py"), "--check"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_no_document_is_half_merged() -> None:
    """The marks of a merge that nobody finished stand in none of them."""
    marked = re.compile("^(<{7}|>{7}) ", re.MULTILINE)
    found = [path for path in [*ROOT.glob("*.md"), *ROOT.glob("*/**/*.md")] if ".venv" not in path.parts]
    assert [str(path) for path in found if marked.search(path.read_text())] == []


@pytest.mark.parametrize("agent", NAMES)
def test_the_agents_document_names_every_event_and_the_version_seen(agent: str) -> None:
    """What is read of an agent's hooks stands in its column, and nothing else."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (ROOT / "docs" / "agent-programs.md").read_text().splitlines()
        if line.startswith("|")
    ]
    begin = next(number for number, row in enumerate(rows) if row == ["", *(f"`{one}`" for one in NAMES)])
    events = {"claude": claude, "codex": codex, "opencode": opencode}[agent].EVENTS
    signs = len(set(claude.EVENTS.values()))
    said = [row[1 + list(NAMES).index(agent)] for row in rows[begin + 2 : begin + 2 + signs]]
    grouped: dict[str, list[str]] = {}
    for event, sign in events.items():
        grouped.setdefault(sign, []).append(f"`{event}`")
    assert sorted(one for one in said if one != "-") == sorted(map(", ".join, grouped.values()))
    assert [row[-1] for row in rows if row[0] == f"`{agent}`"] == [SEEN[agent]]
