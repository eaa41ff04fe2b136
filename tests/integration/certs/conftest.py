"""A real authority in real time, and the openssl program."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from jobwire.certs.authority import CertificateAuthority

OpenSsl = Callable[..., str]


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    """Return an authority just created."""
    authority = CertificateAuthority(tmp_path / "certs")
    authority.init()
    return authority


@pytest.fixture(scope="session")
def openssl() -> OpenSsl:
    """Return a function that runs openssl and returns what it printed, exit status first."""
    program = shutil.which("openssl")
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("openssl is missing: apt-get install openssl")
        pytest.skip("openssl is not installed")

    def run(*arguments: str | Path) -> str:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=60)
        return f"{done.returncode}\n{done.stdout}{done.stderr}"

    return run
