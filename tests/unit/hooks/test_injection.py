"""A launch with our hooks: the user's own settings are folded in, and nothing of theirs is touched."""

import json
from pathlib import Path

import pytest

from jobwire.core.errors import InvalidInputError
from jobwire.hooks.desk import ENV_ENDS, ENV_HOLD, HELD
from jobwire.hooks.injection import injected


def files_below(folder: Path) -> dict[str, bytes]:
    """Return every file with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """Return the home of somebody with settings of their own for each agent."""
    home = tmp_path / "user"
    for name, text in {
        ".claude/settings.json": '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}',
        ".codex/config.toml": 'model = "gpt-5"\nnotify = ["mine"]\n',
        ".config/opencode/opencode.json": '{"plugin": ["mine"]}',
        "own.json": '{"model": "opus", "hooks": {"Stop": [{"hooks": [{"command": "mine"}]}]}}',
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    return home


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a launch's folder."""
    made = tmp_path / "launch"
    made.mkdir()
    return made


@pytest.mark.parametrize("agent", ["claude", "codex", "opencode"])
def test_nothing_of_the_users_is_touched(agent: str, user: Path, folder: Path) -> None:
    """Byte for byte what it was, and no file beside."""
    before = files_below(user)
    own = ["--settings", str(user / "own.json")] if agent == "claude" else []
    injected(agent, [agent, *own, "do it"], {"HOME": str(user)}, folder)
    assert files_below(user) == before


def test_claudes_own_settings_of_the_launch_are_folded_in(user: Path, folder: Path) -> None:
    """Theirs come first, and stay; of --settings there is one."""
    for given in (["--settings", str(user / "own.json")], [f"--settings={user / 'own.json'}"]):
        made = injected("claude", ["/opt/bin/claude", "-c", *given, "do it"], {"HOME": str(user)}, folder)
        assert made.command[0] == "/opt/bin/claude"
        assert made.command.count("--settings") == 1
        assert made.command[-2:] == ["-c", "do it"]
        settings = json.loads(Path(made.command[2]).read_text())
        assert settings["model"] == "opus"
        assert settings["hooks"]["Stop"][0]["hooks"][0]["command"] == "mine"
        ours = settings["hooks"]["Stop"][1]["hooks"]
        assert [one.get("asyncRewake", False) for one in ours] == [False, True]
        assert "-P" in ours[0]["args"]
        assert settings["hooks"]["PermissionRequest"][0]["hooks"][0]["timeout"] == 86_400


def test_claudes_prompt_is_not_read_as_an_option(user: Path, folder: Path) -> None:
    """What stands behind -- is the prompt."""
    made = injected("claude", ["claude", "--", "--settings", "x"], {"HOME": str(user)}, folder)
    assert made.command[-3:] == ["--", "--settings", "x"]


def test_codex_trusts_our_hooks_alone(user: Path, folder: Path) -> None:
    """Each hook has its digest; no option opens the door to others."""
    made = injected("codex", ["codex", "exec", "do it"], {"HOME": str(user)}, folder)
    text = " ".join(made.command)
    assert "bypass" not in text
    assert text.count("trusted_hash") == 6
    assert made.command[-2:] == ["exec", "do it"]
    assert made.environment[ENV_ENDS] == "1"
    assert ENV_HOLD not in made.environment


def test_codex_is_put_behind_its_own_server(user: Path, folder: Path) -> None:
    """So its pane can answer as well; what ends with its turn has no pane, and waits in its hook."""
    served = injected("codex", ["codex", "do it"], {"HOME": str(user)}, folder, approve_remotely=True)
    assert served.command[2:] == ["-m", "jobwire.hooks.codex_server", "codex", "do it"]
    assert ENV_ENDS not in served.environment
    held = injected("codex", ["codex", "exec", "do it"], {"HOME": str(user)}, folder, approve_remotely=True)
    assert held.environment[ENV_HOLD] == HELD
    assert "codex_server" not in " ".join(held.command)


def test_opencodes_own_plugins_stay(user: Path, folder: Path) -> None:
    """What the user's variable names is there beside ours."""
    environ = {"HOME": str(user), "OPENCODE_CONFIG_CONTENT": '{"plugin": ["theirs"], "model": "m"}'}
    made = injected("opencode", ["opencode"], environ, folder)
    content = json.loads(made.environment["OPENCODE_CONFIG_CONTENT"])
    assert content["model"] == "m"
    assert content["plugin"][0] == "theirs"
    assert content["plugin"][1].startswith("file://")


@pytest.mark.parametrize(
    "command",
    [
        ["bash"],
        ["claude", "--settings", "/nowhere"],
        ["claude", "--settings", "{"],
        ["claude", "--settings", '{"hooks": 1}'],
    ],
)
def test_what_cannot_be_launched_is_refused(command: list[str], user: Path, folder: Path) -> None:
    """Another program, or settings that cannot be read: said before anything starts."""
    with pytest.raises(InvalidInputError):
        injected("claude", command, {"HOME": str(user)}, folder)


@pytest.mark.parametrize("content", ["{", "[]", "[" * 100_000])
def test_settings_of_opencode_that_are_none_are_refused(content: str, user: Path, folder: Path) -> None:
    """What stands in its variable is kept, and so it has to be understood."""
    environ = {"HOME": str(user), "OPENCODE_CONFIG_CONTENT": content}
    with pytest.raises(InvalidInputError, match="OPENCODE_CONFIG_CONTENT"):
        injected("opencode", ["opencode"], environ, folder)


def test_a_denial_of_the_users_is_asked_before_every_tool(user: Path, folder: Path) -> None:
    """Else our hook runs before edits of files alone: it costs the agent time."""

    def matcher() -> str:
        made = injected("claude", ["claude"], {"HOME": str(user)}, folder)
        found: str = json.loads(Path(made.command[2]).read_text())["hooks"]["PreToolUse"][0]["matcher"]
        return found

    assert matcher() == "Edit|Write|MultiEdit|NotebookEdit"
    own = user / ".config" / "jobwire" / "jobwire.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[agents.policy]\ndeny = ["Bash(git push*)"]\n')
    assert matcher() == "*"
