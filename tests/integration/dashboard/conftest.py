"""Asking a server, and the home that it shows."""

import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobwire.testing.dashboard_process import DashboardProcess
from jobwire.testing.fleet_writer import FleetWriter

Answer = tuple[int, dict[str, str], str]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[FleetWriter]:
    """Give a home directory that jobs can be written into."""
    made = FleetWriter(tmp_path / "home")
    yield made
    made.close()


def ask(
    server: DashboardProcess, path: str, *, method: str = "GET", body: str = "", **headers: str
) -> Answer:
    """Return (status, headers, body) for whoever brings nothing but `headers`, named with _ for -."""
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        link.request(method, path, body=body or None, headers=sent)
        answer = link.getresponse()
        text = "" if answer.headers.get_content_type() == "text/event-stream" else answer.read().decode()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, text
    finally:
        link.close()
