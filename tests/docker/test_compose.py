"""compose.yaml brings up a broker that the doctor finds healthy."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from jobwire.testing import wait_for

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]


def container(command: str, project: str, *arguments: str) -> str:
    """Run a compose sub-command and return its output."""
    line = [*shlex.split(command), "-f", str(ROOT / "compose.yaml"), "-p", project, *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def test_the_doctor_finds_the_broker_healthy(
    deployment: Path,
    docker_services: object,
    docker_compose_command: str,
    docker_compose_project_name: str,
) -> None:
    """The container becomes healthy, the doctor agrees, and it runs without rights on a read-only root."""
    identifier = container(docker_compose_command, docker_compose_project_name, "ps", "-q", "mosquitto")

    def inspected() -> dict[str, object]:
        found = subprocess.run(
            ["docker", "inspect", identifier], capture_output=True, text=True, timeout=30, check=True
        )
        value = json.loads(found.stdout)[0]
        assert isinstance(value, dict)
        return value

    wait_for(
        lambda: '"Status": "healthy"' in json.dumps(inspected()["State"]),
        deadline_seconds=60,
        what="a healthy broker",
    )
    doctor = subprocess.run(
        [sys.executable, "-m", "jobwire.cli.main", "--home", str(deployment), "doctor", "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={key: value for key, value in os.environ.items() if not key.startswith("MQTT_")},
    )
    said = json.loads(doctor.stdout)
    assert said["ok"], [report for report in said["reports"] if report["state"] == "fails"]
    assert doctor.returncode == 0
    host = inspected()["HostConfig"]
    assert isinstance(host, dict)
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    user = container(
        docker_compose_command, docker_compose_project_name, "exec", "-T", "mosquitto", "id", "-u"
    )
    assert user == os.environ["JOBWIRE_UID"]


def test_every_service_is_confined(deployment: Path, docker_compose_command: str) -> None:
    """Each service of compose.yaml has a health check, a user, a read-only root and no capabilities."""
    text = container(docker_compose_command, "jobwire-config", "config")
    services = text.split("services:", 1)[1]
    names = ["mosquitto", "registry", "metrics", "dashboard"]
    assert all(f"\n  {name}:" in services for name in names)
    # Version 1 of docker compose shows the services of every profile.
    names += [name for name in ("prometheus", "grafana") if f"\n  {name}:" in services]
    for setting in ("healthcheck:", "read_only: true", "no-new-privileges:true", "- ALL"):
        assert services.count(setting) == len(names), setting
