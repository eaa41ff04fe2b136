"""What a job of `jobwire run` is called where nobody named it."""

import shlex
from pathlib import Path

import pytest

from jobwire.core.errors import InvalidInputError
from jobwire.jobs.record import Timeouts
from jobwire.registry.store import RecordStore
from jobwire.runner.delegation import Delegation, Plan, default_title


def test_a_title_can_be_pasted_into_a_shell() -> None:
    """The title keeps the quoting: read by a shell, it is the command again."""
    command = ["sh", "-c", 'echo hi; echo "half 50%"', "it's"]
    assert shlex.split(default_title(command, {})) == command


def test_a_title_tells_no_secret() -> None:
    """Passwords and secrets of the environment are masked, also where quoting changes them; paths stay."""
    environ = {"DEPLOY_TOKEN": "it's-a-secret"}
    command = ["/opt/tools/deploy", "password=hunter22", "it's-a-secret", "x=it's-a-secret y"]
    assert default_title(command, environ) == "/opt/tools/deploy [redacted] [redacted] 'x=[redacted] y'"


def test_a_word_that_is_no_text_is_no_obstacle() -> None:
    """Bytes that are not UTF-8, as Python gives them in argv, become replacement characters."""
    assert default_title(["echo", "caf\udce9"], {}) == "echo 'caf\ufffd'"


def test_a_long_command_is_cut_visibly() -> None:
    """A title has at most 120 characters and shows where something is missing."""
    title = default_title(["echo", "a" * 1000], {})
    assert len(title) == 120
    assert title.endswith("…")


@pytest.mark.parametrize(
    "plan",
    [
        Plan(["true"], title="x" * 201),
        Plan(["true"], agent_session="a\nb"),
        Plan(["true"], timeouts=Timeouts(wall_seconds=1e300)),
    ],
)
def test_run_holds_to_the_rules_of_registration(tmp_path: Path, plan: Plan) -> None:
    """What `register` refuses, `run` refuses too, before there is a job."""
    store = RecordStore(tmp_path / "home")
    with pytest.raises(InvalidInputError):
        Delegation(store, plan)
    assert not store.has_jobs()
