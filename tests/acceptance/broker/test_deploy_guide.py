"""docs/deploy.md does what it says."""

import re
import subprocess
import sys
from pathlib import Path

from jobwire.testing import require

GUIDE = Path(__file__).parents[3] / "docs" / "deploy.md"
SECONDS = 60


def commands() -> list[list[str]]:
    """Return the jobwire commands of the guide's first block, without those that need the other host."""
    block = re.search(r"```console\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert block is not None
    lines = [line.removeprefix("$ ") for line in block[1].splitlines()]
    assert len(lines) == 10
    return [line.split()[1:] for line in lines if line.startswith("jobwire") and "doctor" not in line]


def test_the_local_steps_work(tmp_path: Path) -> None:
    """Rendering, checking and issuing run as written, and the authority's key stays at home."""
    require("mosquitto")
    for words in commands():
        line = [sys.executable, "-m", "jobwire.cli.main", *words]
        said = subprocess.run(
            line, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert said.returncode == 0, (words, said.stderr)
    assert (tmp_path / "deploy" / "certs" / "clients" / "1234abcd.pem").exists()
    assert {path.name for path in (tmp_path / "broker").rglob("*.key")} == {"server.key"}
    service = (tmp_path / "broker" / "jobwire-broker.service").read_text()
    assert "-c /etc/jobwire-broker/mosquitto.conf" in service
    assert "@" not in service.replace("@system-service", "")
