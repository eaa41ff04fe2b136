"""What a fresh interpreter loads to show the help of a command."""

import subprocess
import sys
from pathlib import Path

from jobwire.cli.main import COMMANDS

# These load more: their arguments stand beside what they do.
LIGHT = sorted(COMMANDS.keys() - {"journal", "metrics"})


def test_help_loads_little() -> None:
    """The arguments of all commands need no broker, no transport and no record: help is there at once."""
    heavy = "asyncio cryptography logging pathlib pydantic paho rich ssl subprocess jobwire.jobs.record"
    code = (
        f"import sys; from jobwire.cli.main import _parser; [_parser(name) for name in {LIGHT!r}];"
        f"print(*set({heavy.split()!r}) & set(sys.modules))"
    )
    # -S: the environment's own start-up files may import anything.
    answer = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": ":".join(path for path in sys.path if Path(path).is_dir())},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.split() == []
