"""compose.yaml brings up a broker that the doctor finds healthy, and the processes around it."""

import json
import os
import shlex
import ssl
import subprocess
import sys
import urllib.request
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
            ["docker", "inspect", identifier], capture_output=True, text=True, timeout=60, check=True
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


def test_a_worker_outside_reports_to_the_registry_inside(
    deployment: Path,
    docker_services: object,
    docker_compose_command: str,
    docker_compose_project_name: str,
    tmp_path: Path,
) -> None:
    """A job of the registry's container is reported by its ticket, confirmed, and shown on the page."""

    def inside(*words: str) -> str:
        registry = ("exec", "-T", "registry", "jobwire", "registry", *words)
        return container(docker_compose_command, docker_compose_project_name, *registry)

    def healthy() -> bool:
        try:
            return bool(json.loads(inside("health", "--json"))["healthy"])
        except subprocess.CalledProcessError:
            return False

    wait_for(healthy, deadline_seconds=60, what="a registry process")
    job = json.loads(inside("register", "--title", "in a container", "--json"))["job_id"]
    place = ("--broker", "broker=127.0.0.1", "--broker", f"port={os.environ['JOBWIRE_PORT']}")
    account = ("--broker", "username=claude-worker", "--broker", "password_file=/run/secrets/worker_password")
    ticket = tmp_path / "job.ticket"
    ticket.touch(mode=0o600)
    ticket.write_text(inside("ticket", job, *place, *account))
    for event in ("started", "completed"):
        subprocess.run(
            [Path(sys.executable).with_name("publish_event"), "--ticket", ticket, "--event", event],
            check=True,
            capture_output=True,
            timeout=60,
        )
    wait_for(
        lambda: json.loads(inside("show", job, "--json"))["status"] == "completed",
        deadline_seconds=60,
        what="the end in the record",
    )
    token = (deployment / "passwords" / "page").read_text().strip()
    page = f"https://localhost:{os.environ['JOBWIRE_DASHBOARD_PORT']}/metrics"
    trust = ssl.create_default_context(cafile=str(deployment / "certs" / "ca.pem"))
    request = urllib.request.Request(page, headers={"Authorization": f"Bearer {token}"})
    wait_for(
        lambda: 'jobwire_jobs{status="completed"} 1.0' in _read(request, trust),
        deadline_seconds=60,
        what="the job on the page",
    )


def _read(request: urllib.request.Request, trust: ssl.SSLContext) -> str:
    try:
        with urllib.request.urlopen(request, context=trust, timeout=60) as answer:  # noqa: S310 - as above
            return str(answer.read().decode())
    except OSError:
        return ""  # not up yet
