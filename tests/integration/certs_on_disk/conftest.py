"""An authority on a clock that the test moves."""

from pathlib import Path

import pytest

from jobwire.certs.authority import CertificateAuthority
from jobwire.testing.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock at 2026-01-01."""
    return ManualClock()


@pytest.fixture
def authority(tmp_path: Path, clock: ManualClock) -> CertificateAuthority:
    """Return an authority just created."""
    authority = CertificateAuthority(tmp_path / "certs", clock=clock)
    authority.init()
    return authority
