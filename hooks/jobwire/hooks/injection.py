"""Our hooks for one launch of an agent: the command line and environment that bring them along.

Nothing of the user's is written or replaced: what the agent is told is added to what their files say.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.errors import InvalidInputError
from jobwire.hooks import claude, codex
from jobwire.hooks.desk import ENV_ENDS, ENV_HOLD, HELD
from jobwire.hooks.kinds import NAMES
from jobwire.hooks.main import WAKE
from jobwire.hooks.policy import DENY, own_policy
from jobwire.storage.durable import replace_durably
from jobwire.storage.files import SystemFiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The one who waits for a person waits for a day (`asking.WAIT_SECONDS` is below it), the others for the disk.
WAIT_SECONDS, WORK_SECONDS = 86_400, 30
# Before which tools there is something to look at: edits of files, and all where the user denies something.
_EDITS = "Edit|Write|MultiEdit|NotebookEdit"
_MAX_SETTINGS = 1024 * 1024
_PLUGIN = "opencode_plugin.js"
# What starts Codex behind its own server.
_SERVED_WORDS = (sys.executable, "-P", "-m", "jobwire.hooks.codex_server")
# What makes an agent's process end with its turn.
_ENDING = {"claude": {"-p", "--print"}, "codex": {"exec", "e", "review"}, "opencode": {"run"}}


class Injected(NamedTuple):
    """How an agent is started with our hooks."""

    command: list[str]
    environment: dict[str, str]


def injected(
    agent: str,
    command: Sequence[str],
    environ: Mapping[str, str],
    folder: Path,
    *,
    approve_remotely: bool = False,
) -> Injected:
    """Return the command and the environment with our hooks; files for this launch are written to `folder`.

    Raises InvalidInputError where the command does not start the agent, or its own settings cannot be read.
    """
    place = options_place(agent, command)
    own = {ENV_HOLD: HELD} if approve_remotely else {}
    ends = _ENDING[agent] & set(command[place:])
    if ends:
        own[ENV_ENDS] = "1"
    environment = {**environ, **own}
    before, after = list(command[:place]), list(command[place:])
    if agent == "claude":
        words = _claude_words(after, folder, environ)
    elif agent == "codex":
        if approve_remotely and not ends:
            return Injected([*_SERVED_WORDS, *command], environment)
        words = [*codex_words(), *after]
    else:
        words = after
        environment |= _opencode_variables(folder, environ)
    return Injected([*before, *words], environment)


def starts(agent: str, command: Sequence[str]) -> bool:
    """Tell whether the command starts the agent, so that it can be given our hooks."""
    try:
        options_place(agent, command)
    except InvalidInputError:
        return False
    return True


def options_place(agent: str, command: Sequence[str]) -> int:
    """Return where the agent's own options begin; raises InvalidInputError where nothing starts the agent."""
    if agent not in NAMES:
        raise InvalidInputError(f"no agent {agent[:40]!r} is known", hint=f"one of: {', '.join(NAMES)}")
    for number, word in enumerate(command):
        if Path(word).name in {agent, f"{agent}.exe", f"{agent}.js"}:
            return number + 1
    raise InvalidInputError(
        f"the command does not start {agent}: {shlex.join(command)[:80]}",
        hint=f"jobwire run --agent {agent} -- {agent} …",
    )


def hook_words(agent: str) -> list[str]:
    """Return the command that a hook runs; never a module of the directory that the agent works in (-P)."""
    # Not -m: what looks for a module and runs it costs a tenth of a hook.
    return [sys.executable, "-P", "-c", "from jobwire.hooks.main import main; main()", agent]


def _claude_words(words: list[str], folder: Path, environ: Mapping[str, str]) -> list[str]:
    rest, given = _without_settings(words)
    settings = _folded(given, claude_settings(environ))
    path = folder / "claude-settings.json"
    replace_durably(path, json.dumps(settings, indent=1).encode(), files=SystemFiles())
    return ["--settings", str(path.resolve()), *rest]


def claude_settings(environ: Mapping[str, str]) -> dict[str, object]:
    """Return the settings that bring our hooks into Claude Code."""
    denies = any(one.verdict == DENY for one in own_policy(environ).rules)
    program, *args = hook_words("claude")
    work = {"type": "command", "command": program, "args": args, "timeout": WORK_SECONDS}
    wait = {**work, "timeout": WAIT_SECONDS}
    # In the background: the pane stays free, and the answer wakes the agent.
    wake = {**wait, "args": [*args, WAKE], "asyncRewake": True}
    entries: dict[str, list[dict[str, object]]] = {
        name: [{"hooks": [work]}] for name in claude.EVENTS if name not in {"PreToolUse", "Notification"}
    }
    entries["PreToolUse"] = [{"matcher": "*" if denies else _EDITS, "hooks": [work]}]
    entries["PermissionRequest"] = [{"hooks": [wait]}]
    entries["Notification"] = [{"matcher": "idle_prompt", "hooks": [work]}]
    entries["Stop"] = entries["StopFailure"] = [{"hooks": [work, wake]}]
    return {"hooks": entries}


def _without_settings(words: Sequence[str]) -> tuple[list[str], str]:
    """Return the words without the user's own --settings, and what that named."""
    rest: list[str] = []
    given, position = "", 0
    while position < len(words):
        word = words[position]
        if word == "--":
            return [*rest, *words[position:]], given
        if word == "--settings" and position + 1 < len(words):
            given = words[position + 1]
            position += 1
        elif word.startswith("--settings="):
            given = word.removeprefix("--settings=")
        else:
            rest.append(word)
        position += 1
    return rest, given


def _folded(given: str, ours: Mapping[str, object]) -> dict[str, object]:
    """Return the user's own settings of this launch, a file or JSON, with our hooks behind theirs."""
    if not given:
        return dict(ours)
    try:
        text = given
        if not given.lstrip().startswith("{"):
            with Path(given).open("rb") as file:
                text = file.read(_MAX_SETTINGS).decode("utf-8")
        theirs = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"--settings cannot be read: {error}", hint="a file with JSON, or JSON"
        ) from error
    if not isinstance(theirs, dict) or not isinstance(theirs.get("hooks", {}), dict):
        raise InvalidInputError("--settings is no object of settings", hint="a file with JSON, or JSON")
    hooks = dict(theirs.get("hooks", {}))
    added = ours["hooks"]
    assert isinstance(added, dict)  # noqa: S101 - made above
    for name, entries in added.items():
        before = hooks.get(name)
        hooks[name] = [*(before if isinstance(before, list) else []), *entries]
    return {**theirs, "hooks": hooks}


def codex_words() -> list[str]:
    """Return the options that bring our hooks into Codex, and its trust in them alone.

    What it trusts is a digest of the hook as it reads it. Where its form is another, it does not run ours,
    and asks the person at the pane about them.
    """
    command = shlex.join(hook_words("codex"))
    words: list[str] = []
    trusted: list[str] = []
    for event in codex.EVENTS:
        seconds = WAIT_SECONDS if event == "PermissionRequest" else WORK_SECONDS
        entry = f'{{type="command",command={_toml(command)},timeout={seconds}}}'
        words += ["-c", f"hooks.{event}=[{{hooks=[{entry}]}}]"]
        # Its own name of the event, where it keeps whom it trusts: pre_tool_use.
        key = re.sub("(?<=[a-z])(?=[A-Z])", "_", event).lower()
        digest = _codex_digest(key, command, seconds)
        trusted.append(f'"/<session-flags>/config.toml:{key}:0:0"={{trusted_hash="sha256:{digest}"}}')
    return [*words, "-c", f"hooks.state={{{','.join(trusted)}}}"]


def _codex_digest(key: str, command: str, seconds: int) -> str:
    handler = {"async": False, "command": command, "timeout": seconds, "type": "command"}
    identity = {"event_name": key, "hooks": [handler]}
    return hashlib.sha256(json.dumps(identity, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _toml(text: str) -> str:
    # A basic string of TOML is one of JSON, but for DEL, which no command of ours holds.
    return json.dumps(text, ensure_ascii=False)


def _opencode_variables(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that bring our plugin into opencode, beside those that the user names."""
    plugin = folder / "jobwire.js"
    source = Path(__file__).with_name(_PLUGIN).read_bytes()
    replace_durably(plugin, source, files=SystemFiles())
    given = environ.get("OPENCODE_CONFIG_CONTENT", "")
    try:
        content = json.loads(given) if given else {}
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"OPENCODE_CONFIG_CONTENT is no JSON: {error}", hint="correct it, or unset it"
        ) from error
    if not isinstance(content, dict):
        raise InvalidInputError(
            "OPENCODE_CONFIG_CONTENT is no object of settings", hint="correct it, or unset it"
        )
    before = content.get("plugin", [])
    plugins = [*(before if isinstance(before, list) else []), plugin.resolve().as_uri()]
    return {
        "OPENCODE_CONFIG_CONTENT": json.dumps({**content, "plugin": plugins}),
        "JOBWIRE_HOOK": json.dumps(hook_words("opencode")),
    }
