"""A worker on another host: another network namespace, and nothing of the registry's disk to be seen."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobwire.testing import require, wait_for
from tests.faults.storm import hosts as two_hosts
from tests.faults.storm.hosts import REGISTRY_ADDRESS, Hosts

BIN = Path(sys.executable).parent
# The home is hidden behind an empty file system: what the worker has is its ticket.
_HIDE = 'mount -t tmpfs none "$0" && exec "$@"'

Answer = subprocess.CompletedProcess[str]


class Site:
    """The registry's host with a broker and a registry process at work, and the workers' host."""

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        self.hosts = hosts
        self.home = folder / "home"
        self.elsewhere = folder / "elsewhere"
        self.home.mkdir(mode=0o700)
        self.elsewhere.mkdir()
        self._started: list[subprocess.Popen[bytes]] = []

    def here(self, *words: str) -> Answer:
        """Run `jobwire` on the registry's host."""
        return self._run(self._on_registry(*words))

    def there(self, ticket: str, *words: str) -> Answer:
        """Run `publish_event` with `ticket` on the workers' host."""
        command = [str(BIN / "publish_event"), "--ticket", str(self.elsewhere / ticket), *words]
        hidden = ["unshare", "-m", "sh", "-c", _HIDE, str(self.home), *command]
        return self._run(self.hosts.on_workers(hidden))

    def ticket(self, job: str, name: str) -> str:
        """Write a ticket with a certificate into the workers' folder; return its name."""
        path = str(self.elsewhere / name)
        written = self.here(
            "registry",
            "ticket",
            job,
            "--broker",
            f"broker={REGISTRY_ADDRESS}",
            "--certificate",
            "--out",
            path,
        )
        assert written.returncode == 0, written.stderr
        return name

    def register(self) -> str:
        """Register a job; return its id."""
        return str(json.loads(self.here("registry", "register", "--json").stdout)["job_id"])

    def record(self, job: str) -> dict[str, object]:
        """Return the job's record."""
        record: dict[str, object] = json.loads(self.here("registry", "show", job, "--json").stdout)
        return record

    def open(self) -> None:
        """Make the certificates, start broker and registry process, and wait until they work."""
        assert self.here("init").returncode == 0
        names = [word for name in ("127.0.0.1", REGISTRY_ADDRESS) for word in ("--server-name", name)]
        assert self.here("certs", "init", *names).returncode == 0
        # In a namespace of our own, whose only cable leads to the workers.
        self._start("broker", "up", "--mosquitto", "--host", "0.0.0.0")  # noqa: S104 - see above
        wait_for((self.home / "jobwire.toml").exists, what="the broker")
        self._start("registry", "serve")
        wait_for(
            lambda: self.here("registry", "health").returncode == 0, deadline_seconds=60, what="the registry"
        )

    def close(self) -> None:
        """End what was started."""
        for process in reversed(self._started):
            process.terminate()
            process.wait(60)

    def _on_registry(self, *words: str) -> list[str]:
        return ["ip", "netns", "exec", self.hosts.registry, str(BIN / "jobwire"), *words]

    def _start(self, *words: str) -> None:
        with (self.home / f"{words[0]}.out").open("wb") as output:
            process = subprocess.Popen(
                self._on_registry(*words), env=self._environ(), stdout=output, stderr=output
            )
        self._started.append(process)

    def _run(self, command: list[str]) -> Answer:
        return subprocess.run(
            command, env=self._environ(), capture_output=True, text=True, check=False, timeout=60
        )

    def _environ(self) -> dict[str, str]:
        return {**os.environ, "JOBWIRE_HOME": str(self.home)}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Give the two hosts, at work."""
    if missing := two_hosts.available():
        pytest.skip(missing)
    require("mosquitto")
    hosts = two_hosts.create()
    site = Site(hosts, tmp_path_factory.mktemp("two-hosts"))
    try:
        site.open()
        yield site
    finally:
        site.close()
        two_hosts.remove(hosts)


def test_a_ticket_is_all_that_a_worker_needs(site: Site) -> None:
    """Its seq and outbox lie beside the ticket, and its last event waits for the registry's word."""
    job = site.register()
    ticket = site.ticket(job, "whole.ticket")
    assert site.there(ticket, "--event", "started").returncode == 0
    last = site.there(ticket, "--event", "completed", "--detail", "done")
    assert json.loads(last.stdout) == {
        "job_id": job,
        "seq": 2,
        "event": "completed",
        "delivered": True,
        "confirmed": True,
    }
    assert (site.elsewhere / "whole.ticket.outbox").exists()
    assert not (site.home / "outbox" / f"{job}.ndjson").exists()
    record = site.record(job)
    assert (record["status"], record["last_seq"]) == ("completed", 2)


def test_a_cancelled_worker_is_stopped(site: Site) -> None:
    """Whoever speaks after a cancellation is told to stop: exit code 3."""
    job = site.register()
    ticket = site.ticket(job, "cancelled.ticket")
    assert site.there(ticket, "--event", "started").returncode == 0
    assert site.here("registry", "cancel", job).returncode == 0
    _await_stop(site, ticket)


def test_an_earlier_attempt_is_stopped_and_the_next_one_gets_its_own_ticket(site: Site) -> None:
    """After a release the old ticket is over, and a new one, with a new certificate, finishes the job."""
    job = site.register()
    first = site.ticket(job, "first.ticket")
    assert site.there(first, "--event", "started").returncode == 0
    assert site.here("registry", "release", job, "--for-attempt", "1").returncode == 0
    second = site.ticket(job, "second.ticket")
    _await_stop(site, first)
    assert site.there(second, "--event", "started").returncode == 0
    assert site.there(second, "--event", "completed").returncode == 0
    record = site.record(job)
    assert (record["status"], record["attempt"]) == ("completed", 2)


def test_a_cut_cable_costs_no_event(site: Site) -> None:
    """What is said without a network stays beside the ticket, and `--flush` hands it over."""
    job = site.register()
    ticket = site.ticket(job, "cut.ticket")
    site.hosts.cut()
    try:
        assert site.there(ticket, "--event", "started", "--attempts", "1").returncode == 60
    finally:
        site.hosts.heal()
    wait_for(lambda: site.there(ticket, "--flush").returncode == 0, what="the flush")
    wait_for(lambda: site.record(job)["last_seq"] == 1, what="the event in the record")


def _await_stop(site: Site, ticket: str) -> None:
    """Speak until the registry's word has come back; then the worker must be told to stop."""

    def told() -> bool:
        answer = site.there(ticket, "--event", "progress")
        assert answer.returncode in {0, 3}, answer.stderr
        return answer.returncode == 3

    wait_for(told, what="exit code 3")
