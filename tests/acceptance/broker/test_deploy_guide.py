"""docs/deploy.md does what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

from jobwire.testing import require

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "deploy.md"
SECONDS = 60


def commands() -> list[list[str]]:
    """Return the jobwire commands of the guide's first block, without those that need the other host."""
    block = re.search(r"```console\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert block is not None
    lines = [line.removeprefix("$ ") for line in block[1].splitlines()]
    assert len(lines) == 11
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


def test_the_containers_get_their_own_secrets(tmp_path: Path) -> None:
    """The guide makes every file that compose.yaml mounts, and the page gets nothing of the broker's."""
    compose = (ROOT / "compose.yaml").read_text()
    part = GUIDE.read_text().split("## With containers")[1]
    steps = part.split("```console\n", 1)[1].split("$ docker", 1)[0].replace("$ ", "")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(
        ["sh", "-ec", steps],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        timeout=SECONDS,
        check=True,
    )
    mounted = re.findall(r"file: \$\{JOBWIRE_(?:BROKER_DIR|DEPLOY_HOME):-\./(\w+)\}/(\S+)", compose)
    # Copies for Prometheus and Grafana are made by root, for their users.
    needed = {f"{folder}/{path}" for folder, path in mounted if not path.startswith(("scrape/", "grafana/"))}
    assert {path for path in needed if not (tmp_path / path).is_file()} == set()
    assert "deploy/certs/servers/page.key" in needed
    page = compose.split("\n  dashboard:", 1)[1].split("\n  prometheus:", 1)[0]
    assert "page_key" in page
    assert "broker_key" not in page
    assert "JOBWIRE_BROKER_DIR" not in page
