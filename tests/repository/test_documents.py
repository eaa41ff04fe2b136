"""Documents that are made from code are current."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_rendered_documents_are_current() -> None:
    """`make docs` would change nothing: asyncapi.yaml, lifecycle.md and exit-codes.md tell the truth."""
    command = [sys.executable, str(ROOT / "scripts" / "render_docs.py"), "--check"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
