"""The inbox's page shows what its commands print."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_transcript_is_what_the_commands_print() -> None:
    """Every command of docs/inbox.md runs, and prints what stands there."""
    script = [sys.executable, str(ROOT / "scripts" / "inbox_transcript.py"), "--check"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
