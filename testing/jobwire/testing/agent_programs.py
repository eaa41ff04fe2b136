"""The real coding agents that tests run, against a scripted model on loopback."""

import sys
from pathlib import Path

import pytest

# A smaller file of its name only says that the program is missing.
_WRAPPER = 1_000_000
_PROGRAMS = {
    "claude": ("@anthropic-ai/claude-code-linux-*/claude", "@anthropic-ai/claude-code/bin/claude.exe"),
    "codex": ("@openai/codex-linux-*/vendor/*/bin/codex",),
    "opencode": ("opencode-ai/bin/opencode.exe", "opencode-linux-*/bin/opencode"),
}


def require_agent(name: str) -> Path:
    """Return the agent's program; skips the test where it is not there."""
    place = Path(sys.prefix) / "agent-programs" / "node_modules"
    for pattern in _PROGRAMS[name]:
        for path in sorted(place.glob(pattern)):
            if path.stat().st_size > _WRAPPER:
                return path
    # Also where CI=true: a package of somebody else's may be gone any day.
    pytest.skip(f"{name} is not installed (scripts/agent-programs)")
