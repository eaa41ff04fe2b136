"""`jobwire doctor --agents`: installed or not, switched off, a policy that cannot be read."""

import os
import sys
from pathlib import Path

import pytest

from jobwire.hooks.doctor import examine


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return the environment of somebody with a Claude Code, and no other agent."""
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho '2.1.197 (Claude Code)'\n")
    program.chmod(0o755)
    return {"PATH": f"{program.parent}{os.pathsep}{Path(sys.executable).parent}:/bin", "HOME": str(tmp_path)}


def levels(environ: dict[str, str]) -> dict[str, str]:
    """Return what was found, by its subject."""
    return {one.subject: one.level for one in examine(environ)}


def test_what_is_here_is_named(environ: dict[str, str]) -> None:
    """A known version is fine, and who is not there is no fault."""
    found = levels(environ)
    assert (found["hook"], found["policy"], found["claude"], found["codex"]) == ("ok", "ok", "ok", "note")


def test_what_keeps_hooks_from_us_is_wrong(environ: dict[str, str], tmp_path: Path) -> None:
    """Hooks that are switched off, and a policy that cannot be read."""
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text('{"disableAllHooks": true}')
    own = tmp_path / ".config" / "jobwire" / "jobwire.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[agents.policy]\nallow = "all"\n')
    found = levels(environ)
    assert (found["policy"], found["claude"]) == ("wrong", "wrong")
