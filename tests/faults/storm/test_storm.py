"""kill -9 of anything while jobs are at work: nothing acknowledged is lost, nothing happens twice."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jobwire.testing import require

pytestmark = pytest.mark.alone

_RUN = Path(__file__).with_name("run.py")
_ROOT = Path(__file__).resolve().parents[3]


def _storm(arguments: list[str], report: Path) -> list[dict[str, object]]:
    """Run the command and return what it wrote; its output goes to the test's, with the seed."""
    require("mosquitto")
    command = [sys.executable, str(_RUN), *arguments, "--json", str(report)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=_ROOT)
    sys.stdout.write(answer.stdout)
    sys.stderr.write(answer.stderr)
    assert answer.returncode == 0, f"{answer.stdout}\n{answer.stderr}"
    results: list[dict[str, object]] = json.loads(report.read_text())
    return results


def test_a_short_storm_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Each kind of process is killed at least once: every event arrives once, every verdict is right."""
    [result] = _storm([], tmp_path / "report.json")
    assert result["good"]
    assert (result["lost"], result["doubled"]) == (0, 0)
    assert result["acknowledged"] == result["events"] == 150
