"""The coding agents with a home and settings of their own, and a scripted model on loopback.

No account, no key and no request beyond loopback: what they are told to reach is that model alone.
"""

import json
from pathlib import Path

# What Claude Code asks once about a key that it finds in its environment.
_KEY = "scripted-model-on-loopback"


def claude_environment(home: Path, work: Path, url: str) -> dict[str, str]:
    """Return the variables of a Claude Code that knows `work` and asks the model at `url`."""
    home.mkdir(parents=True, exist_ok=True)
    known = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    state = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [_KEY[-20:]], "rejected": []},
        "projects": {str(work): known},
    }
    (home / ".claude.json").write_text(json.dumps(state))
    return {
        "HOME": str(home),
        "ANTHROPIC_API_KEY": _KEY,
        "ANTHROPIC_BASE_URL": url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
    }


def codex_environment(home: Path, work: Path, url: str) -> dict[str, str]:
    """Return the variables of a Codex that knows `work` and asks the model at `url`."""
    (home / ".codex").mkdir(parents=True, exist_ok=True)
    (home / ".codex" / "config.toml").write_text(
        f"""\
model = "gpt-5"
model_provider = "scripted"
approval_policy = "on-request"
sandbox_mode = "workspace-write"
check_for_update_on_startup = false
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 1
stream_max_retries = 1
[projects."{work}"]
trust_level = "trusted"
[analytics]
enabled = false
"""
    )
    return {"HOME": str(home), "SCRIPTED_KEY": _KEY}


def opencode_environment(home: Path, work: Path, url: str) -> dict[str, str]:
    """Return the variables of an opencode that asks before each command, and asks the model at `url`."""
    del work  # it asks nothing about a folder
    _without_a_registry(home / ".config" / "opencode")
    provider = {
        "npm": "@ai-sdk/anthropic",  # comes with the program
        "name": "scripted",
        "options": {"baseURL": f"{url}/v1", "apiKey": _KEY},
        "models": {"scripted": {"name": "scripted"}},
    }
    content = {
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
        "autoupdate": False,
        "share": "disabled",
        "enabled_providers": ["scripted"],
        "provider": {"scripted": provider},
        "permission": {"bash": "ask"},
    }
    return {
        "HOME": str(home),
        "OPENCODE_CONFIG_CONTENT": json.dumps(content),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }


def _without_a_registry(folder: Path) -> None:
    """Let opencode's own folder look complete: before it loads a plugin it fetches a package from npm.

    1.18.33 fetches nothing where both files name the package; a plugin of built-in modules needs none of it.
    """
    (folder / "node_modules").mkdir(parents=True, exist_ok=True)
    needed = {"dependencies": {"@opencode-ai/plugin": "*"}}
    (folder / "package.json").write_text(json.dumps(needed))
    (folder / "package-lock.json").write_text(json.dumps({"packages": {"": needed}}))


ENVIRONMENTS = {
    "claude": claude_environment,
    "codex": codex_environment,
    "opencode": opencode_environment,
}
