"""A docker engine, a base image and a rendered broker for compose.yaml."""

import os
import secrets
import shutil
import subprocess
from pathlib import Path

import pytest

from jobwire.broker.mosquitto import Listening
from jobwire.broker.render import Deployment, render_deployment
from jobwire.certs.authority import CertificateAuthority
from jobwire.core.topics import DEFAULT_ROOT
from jobwire.testing import free_port

ROOT = Path(__file__).resolve().parents[2]
BASE_IMAGE = "jobwire-base"
# The services run as nobody in particular: the files are given to this user.
OWNER = 1000
_BUILD_SECONDS = 600


def missing(reason: str) -> None:
    """Skip, or fail where everything must be there."""
    if os.environ.get("CI") == "true" and os.environ.get("JOBWIRE_DOCKER") == "required":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def engine() -> None:
    """Skip where no docker engine answers, or JOBWIRE_DOCKER=off says that there are no images."""
    if os.environ.get("JOBWIRE_DOCKER") == "off":
        pytest.skip("JOBWIRE_DOCKER is off")
    if shutil.which("docker") is None:
        missing("docker is not installed (apt-get install docker.io)")
    found = subprocess.run(["docker", "info"], capture_output=True, text=True, timeout=60, check=False)
    if found.returncode:
        missing(f"no docker engine answers: {found.stderr.strip().splitlines()[-1:]}")


@pytest.fixture(scope="session")
def base_image(engine: None) -> str:
    """Return the name of a local base image, made with debootstrap where it is missing."""
    known = subprocess.run(
        ["docker", "image", "inspect", BASE_IMAGE], capture_output=True, timeout=60, check=False
    )
    if known.returncode:
        if shutil.which("debootstrap") is None or os.geteuid() != 0:
            missing("no base image, and debootstrap or root to make one is missing")
        subprocess.run([ROOT / "tests/docker/build-base-image"], timeout=_BUILD_SECONDS, check=True)
    return BASE_IMAGE


@pytest.fixture(scope="session")
def deployment(base_image: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Render a broker for the containers, and set the environment that compose.yaml reads."""
    home = tmp_path_factory.mktemp("deploy")
    port, mtls_port = free_port(), free_port()
    rendering = Deployment(
        server_names=("127.0.0.1", "mosquitto"),
        listening=Listening("0.0.0.0", 8883, 8884),  # noqa: S104 - inside of the container
        topic_root=DEFAULT_ROOT,
        user="mosquitto",
        installed_at=Path("/etc/jobwire-broker"),
        iterations=1_000,
    )
    render_deployment(home / "home", home / "broker", rendering)
    CertificateAuthority(home / "home" / "certs").issue_server("page", ["localhost"])
    settings = home / "home" / "jobwire.toml"
    text = settings.read_text().replace("port = 8883", f"port = {port}")
    settings.write_text(text.replace("port = 8884", f"port = {mtls_port}"))
    token = home / "home" / "passwords" / "page"
    token.touch(mode=0o600)
    token.write_text(secrets.token_urlsafe() + "\n")
    for path in (home, *home.rglob("*")):
        os.chown(path, OWNER, OWNER)
    os.environ |= {
        "JOBWIRE_BASE_IMAGE": base_image,
        "JOBWIRE_BROKER_DIR": str(home / "broker"),
        "JOBWIRE_DEPLOY_HOME": str(home / "home"),
        "JOBWIRE_PORT": str(port),
        "JOBWIRE_MTLS_PORT": str(mtls_port),
        "JOBWIRE_DASHBOARD_PORT": str(free_port()),
        "JOBWIRE_UID": str(OWNER),
        "JOBWIRE_GID": str(OWNER),
        # BuildKit wants to ask a registry for the base image; the classic builder takes the local one.
        "DOCKER_BUILDKIT": "0",
    }
    return home / "home"


@pytest.fixture(scope="session")
def docker_compose_file() -> str:
    """Return the repository's own compose.yaml (pytest-docker)."""
    return str(ROOT / "compose.yaml")


@pytest.fixture(scope="session")
def docker_compose_command(deployment: Path) -> str:
    """Return whichever docker compose is installed, version 2 or 1 (pytest-docker)."""
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, timeout=60, check=False)
    if not plugin.returncode:
        return "docker compose"
    if shutil.which("docker-compose") is None:
        missing("neither docker compose nor docker-compose is installed")
    return "docker-compose"


@pytest.fixture(scope="session")
def docker_setup() -> list[str]:
    """Start the broker, the registry process and the page (pytest-docker)."""
    return ["up --build --detach mosquitto registry dashboard"]
