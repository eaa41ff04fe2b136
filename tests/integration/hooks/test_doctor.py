"""`jobwire doctor --agents`: who is installed, what keeps hooks from us, and agents that are tried out."""

import os
import sys
from pathlib import Path

import pytest

from jobwire.hooks.doctor import examine
from jobwire.hooks.trial import try_out

# An agent that asks its model once, with its hooks or without, and obeys them or not.
STAND_IN = """\
#!{python}
import json, os, subprocess, sys, urllib.request
if "--version" in sys.argv:
    sys.exit(print("2.1.197 (Claude Code)"))
how = "{how}"
if how == "idle":
    sys.exit(print("no key"))
said = []
def ask():
    body = json.dumps({{"tools": [1], "messages": said}}).encode()
    asked = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", body)
    return json.load(urllib.request.urlopen(asked))["content"][0]
def hook(event, **more):
    entry = json.load(open(sys.argv[sys.argv.index("--settings") + 1]))["hooks"][event][0]["hooks"][0]
    given = json.dumps({{"hook_event_name": event, "session_id": "c", **more}})
    words = [entry["command"], *entry["args"]]
    return subprocess.run(words, input=given, capture_output=True, text=True).stdout
called = ask()
if how != "deaf":
    hook("SessionStart", source="startup")
    said.append(hook("PreToolUse", tool_name=called["name"], tool_input=called["input"]))
if how != "obeys":
    subprocess.run(called["input"]["command"], shell=True)
ask()
print("done")
"""


def environ_with(folder: Path, how: str) -> dict[str, str]:
    """Return the environment of somebody with a stand-in for Claude Code, and no other agent."""
    program = folder / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(STAND_IN.format(python=sys.executable, how=how))
    program.chmod(0o755)
    return {"PATH": f"{program.parent}{os.pathsep}{Path(sys.executable).parent}:/bin", "HOME": str(folder)}


def levels(environ: dict[str, str]) -> dict[str, str]:
    """Return what was found, by its subject."""
    return {one.subject: one.level for one in examine(environ)}


def test_what_is_here_is_named(tmp_path: Path) -> None:
    """A known version that obeys is fine, and who is not there is no fault."""
    found = levels(environ_with(tmp_path, "obeys"))
    assert (found["hook"], found["policy"], found["claude"], found["codex"]) == ("ok", "ok", "ok", "note")
    assert {path.name for path in tmp_path.iterdir()} == {"bin"}


@pytest.mark.parametrize("home", [{}, {"HOME": ""}, {"HOME": "relative"}])
def test_a_user_whose_home_is_not_told_is_told(home: dict[str, str]) -> None:
    """Rules that deny something would not be read: said, and nothing fails."""
    found = list(examine({"PATH": f"{Path(sys.executable).parent}:/bin", **home}))
    (policy,) = [one for one in found if one.subject == "policy"]
    assert policy.level == "note"
    assert "$HOME" in policy.message


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("deaf", "its hook does not fire"),
        ("wild", "its answer is not taken"),
        ("idle", "it did not come to its work: no key"),
    ],
)
def test_an_agent_whose_hook_does_not_hold_is_wrong(tmp_path: Path, how: str, words: str) -> None:
    """Started once: a hook that is not run, one whose answer is not taken, an agent that does nothing."""
    found = try_out("claude", str(tmp_path / "bin" / "claude"), environ_with(tmp_path, how))
    assert not found.sound
    assert words in found.words


def test_what_keeps_hooks_from_us_is_wrong(tmp_path: Path) -> None:
    """Hooks that are switched off, and a policy that cannot be read."""
    environ = environ_with(tmp_path, "obeys")
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text('{"disableAllHooks": true}')
    own = tmp_path / ".config" / "jobwire" / "jobwire.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[agents.policy]\nallow = "all"\n')
    found = levels(environ)
    assert (found["policy"], found["claude"]) == ("wrong", "wrong")
