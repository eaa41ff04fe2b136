"""What goes into the images."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_component_is_sent_to_the_builder() -> None:
    """.dockerignore lets through exactly the components and what packaging needs: no keys, no homes."""
    lines = (ROOT / ".dockerignore").read_text().split()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders = set(project["tool"]["hatch"]["build"]["dev-mode-dirs"])
    needed = {"constraints.txt", "pyproject.toml", "README.md", "LICENSE"}
    assert lines[0] == "*"
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == folders | needed
