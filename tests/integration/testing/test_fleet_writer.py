"""The writer of fleets without a broker."""

import os
from pathlib import Path

import pytest

from jobwire.testing.fleet_writer import FleetWriter


@pytest.mark.parametrize("durable", [True, False])
def test_flushes_are_left_out_where_asked(
    durable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `durable` False nothing of a job is flushed: neither record, history, journal nor directory."""
    flushed: list[int] = []
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, flushed.append)
    writer = FleetWriter(tmp_path / "home", durable=durable)
    job_id = writer.start("a job")
    writer.say(job_id, "completed")
    writer.journal(job_id, b"{}")
    writer.close()
    assert bool(flushed) == durable
