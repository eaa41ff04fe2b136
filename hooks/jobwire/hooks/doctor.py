"""`jobwire doctor --agents`: which agents are here, and whether their hooks reach us."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.errors import JobwireError
from jobwire.core.exit_codes import ExitCode
from jobwire.core.terminal_text import safe
from jobwire.hooks.claude_state import own_file
from jobwire.hooks.injection import hook_words
from jobwire.hooks.kinds import NAMES
from jobwire.hooks.policy import own_policy
from jobwire.hooks.trial import try_out

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

_SECONDS = 30.0
# The versions that were run against a scripted model (docs/agent-programs.md); others are likely to do.
SEEN = {"claude": "2.1.197", "codex": "0.169.0", "opencode": "1.18.33"}


class AgentFinding(NamedTuple):
    """What was found about one subject; `level` is ok, note or wrong."""

    level: str
    subject: str
    message: str


def agents(args: argparse.Namespace) -> int:
    """Say what was found; OK unless something is wrong."""
    found = []
    for one in examine(os.environ):
        found.append(one)
        if not args.json:
            # As they come: an agent takes some seconds to start.
            sys.stdout.write(f"{one.level:<8} {one.subject}: {safe(one.message)}\n")
            sys.stdout.flush()
    wrong = any(one.level == "wrong" for one in found)
    if args.json:
        sys.stdout.write(json.dumps({"ok": not wrong, "reports": [one._asdict() for one in found]}) + "\n")
    return int(ExitCode.INVALID if wrong else ExitCode.OK)


def examine(environ: Mapping[str, str]) -> Iterator[AgentFinding]:
    """Look at our hook, at the user's policy, and at each agent that is installed."""
    code, said = _ran([*hook_words("claude")], environ)
    if code == 0:
        yield AgentFinding("ok", "hook", "it runs, and does nothing outside of a job")
    else:
        yield AgentFinding("wrong", "hook", f"it does not run ({code}): {said}")
    try:
        policy = own_policy(environ)
    except JobwireError as error:
        yield AgentFinding("wrong", "policy", f"{error.message}; {error.hint}")
    else:
        told = any(environ.get(name, "").startswith("/") for name in ("HOME", "XDG_CONFIG_HOME"))
        rules = (
            f"{len(policy.rules)} rules" if told else "your own rules are not read, since $HOME is not set"
        )
        words = f"{rules}, else {policy.default}; a turn's end: {policy.turn_end}"
        yield AgentFinding("ok" if told else "note", "policy", words)
    for name in NAMES:
        yield _agent(name, environ)


def _agent(name: str, environ: Mapping[str, str]) -> AgentFinding:
    path = shutil.which(name, path=environ.get("PATH"))
    if path is None:
        return AgentFinding("note", name, "not installed, or not on your PATH")
    code, said = _ran([path, "--version"], environ)
    if code != 0:
        return AgentFinding("wrong", name, f"{path} --version ended with {code}: {said}")
    if name == "claude" and own_file(environ, "settings.json").get("disableAllHooks") is True:
        return AgentFinding(
            "wrong", name, f"{said}; disableAllHooks in your settings.json switches hooks off"
        )
    tried = try_out(name, path, environ)
    if not tried.sound:
        return AgentFinding("wrong", name, f"{said}; {tried.words}")
    known = "" if SEEN[name] in said else f"; written for {SEEN[name]}"
    return AgentFinding("note" if known else "ok", name, f"{said}; {tried.words}{known}")


def _ran(words: list[str], environ: Mapping[str, str]) -> tuple[int, str]:
    """Run it without input and outside of any job; return its exit code and first line."""
    own = {name: value for name, value in environ.items() if not name.startswith("JOBWIRE_")}
    try:
        ran = subprocess.run(
            words, env=own, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    lines = (ran.stdout or ran.stderr).decode("utf-8", "replace").strip().splitlines()
    return ran.returncode, lines[0][:200] if lines else ""
