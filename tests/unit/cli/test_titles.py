"""What a job of `jobwire run` is called where nobody named it."""

import shlex

from jobwire.cli.delegation import default_title


def test_a_title_can_be_pasted_into_a_shell() -> None:
    """The title keeps the quoting: read by a shell, it is the command again."""
    command = ["sh", "-c", 'echo hi; echo "half 50%"', "it's"]
    assert shlex.split(default_title(command, {})) == command


def test_a_title_tells_no_secret() -> None:
    """Paths, passwords and secrets of the environment are masked, also where quoting would change them."""
    environ = {"DEPLOY_TOKEN": "it's-a-secret"}
    command = ["/opt/tools/deploy", "password=hunter22", "it's-a-secret", "x=it's-a-secret y"]
    assert default_title(command, environ) == "[redacted] [redacted] [redacted] 'x=[redacted] y'"


def test_a_long_command_is_cut_visibly() -> None:
    """A title has at most 120 characters and shows where something is missing."""
    title = default_title(["echo", "a" * 1000], {})
    assert len(title) == 120
    assert title.endswith("…")
