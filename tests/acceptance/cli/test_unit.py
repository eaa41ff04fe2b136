"""`jobwire unit` as an operator runs it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobwire.cli.unit import SERVICES
from jobwire.testing import new_home


@pytest.mark.parametrize("whose", [["--run-as", "root"], ["--user"]])
@pytest.mark.parametrize("name", sorted(SERVICES))
def test_systemd_finds_nothing_wrong(name: str, whose: list[str], tmp_path: Path) -> None:
    """The checker of systemd reads the unit, the system's and a user's own, without a word."""
    if name == "sessions" and whose != ["--user"]:
        pytest.skip("sessions are a user's own: the command refuses it")
    checker = shutil.which("systemd-analyze")
    if checker is None:
        pytest.skip("systemd-analyze is not installed (apt-get install systemd)")
    program = Path(sys.executable).with_name("jobwire")
    command = [str(program), "--home", str(new_home(tmp_path / "home")), "unit", name, *whose]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    path = tmp_path / f"jobwire-{name}.service"
    path.write_text(printed)
    checked = subprocess.run(
        [checker, "verify", "--man=no", *(["--user"] if whose == ["--user"] else []), path],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, "")
