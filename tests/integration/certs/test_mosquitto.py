"""Rollover, renewal and revocation rehearsed on a real Mosquitto with its own clients."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from jobwire.certs import rollover
from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.values import Issued, Kind
from jobwire.testing.waiting import wait_for

pytestmark = pytest.mark.mosquitto
# `user root` keeps a broker started by root able to read 0600 files; for others it means nothing.
_CONFIGURATION = """\
user root
listener {port} 127.0.0.1
allow_anonymous true
cafile {directory}/ca.pem
certfile {directory}/server.pem
keyfile {directory}/server.key
crlfile {directory}/crl.pem
tls_version tlsv1.3
require_certificate true
use_identity_as_username true
"""


class Broker:
    """One Mosquitto that demands client certificates; restarted and reloaded by the test."""

    def __init__(self, authority: CertificateAuthority, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self._configuration = folder / "mosquitto.conf"
        text = _CONFIGURATION.format(port=self.port, directory=authority.directory)
        self._configuration.write_text(text)
        self._log = (folder / "log").open("ab")
        self.log_file = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start and wait until it accepts connections."""
        command = [_program("mosquitto"), "-v", "-c", str(self._configuration)]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        wait_for(self._answers, what="mosquitto's port")

    def _answers(self) -> bool:
        with socket.socket() as plain:
            return plain.connect_ex(("127.0.0.1", self.port)) == 0

    def reload(self) -> None:
        """Send SIGHUP and wait until it has been obeyed."""
        assert self._process
        before = self.log_file.read_text().count("Reloading config")
        self._process.send_signal(signal.SIGHUP)
        wait_for(lambda: self.log_file.read_text().count("Reloading config") > before, what="reload")

    def stop(self) -> None:
        """End it and free its port."""
        if self._process:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def restart(self) -> None:
        """Stop and start: how Mosquitto loads another ca.pem or crl.pem."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop and close the log."""
        self.stop()
        self._log.close()


def _program(name: str) -> str:
    program = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{name} is missing: apt-get install mosquitto mosquitto-clients")
        pytest.skip(f"{name} is not installed")
    return program


@pytest.fixture
def broker(authority: CertificateAuthority, tmp_path: Path) -> Iterator[Broker]:
    """Give a running broker."""
    running = Broker(authority, tmp_path)
    try:
        running.start()
        yield running
    finally:
        running.close()


def _tls(broker: Broker, bundle: Path, issued: Issued) -> list[str]:
    where = ["-h", "localhost", "-p", str(broker.port), "--tls-version", "tlsv1.3"]
    files = ["--cafile", str(bundle), "--cert", str(issued.certfile), "--key", str(issued.keyfile)]
    return [*where, *files, "-q", "1", "-t", "t"]


def publishes(broker: Broker, bundle: Path, issued: Issued) -> bool:
    """Tell whether mosquitto_pub gets a message through with this certificate."""
    command = [_program("mosquitto_pub"), *_tls(broker, bundle, issued), "-m", "x"]
    return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0


def saved(issued: Issued, folder: Path) -> Issued:
    """Return a copy of a pair, as a client on another host has it."""
    folder.mkdir()
    certfile, keyfile = folder / "c.pem", folder / "c.key"
    certfile.write_bytes(issued.certfile.read_bytes())
    keyfile.write_bytes(issued.keyfile.read_bytes())
    return issued._replace(certfile=certfile, keyfile=keyfile)


def line_of(stream: IO[str] | None) -> str:
    """Return the next line; the subscriber ends it or its time-out does."""
    assert stream
    return stream.readline().strip()


def test_rollover_on_mosquitto(authority: CertificateAuthority, broker: Broker, tmp_path: Path) -> None:
    """begin, restart, switch, reload, finish, restart: who did the step before is never refused."""
    bundle = authority.places.bundle
    old = saved(authority.issue("hermes"), tmp_path / "old")
    assert publishes(broker, bundle, old)
    rollover.begin(authority)
    broker.restart()
    assert publishes(broker, bundle, old)
    rollover.switch(authority)
    broker.reload()
    current = Issued("hermes", *authority.places.pair("hermes", Kind.ROLE), 0, 0)
    assert publishes(broker, bundle, old)
    assert publishes(broker, bundle, current)
    rollover.finish(authority)
    broker.restart()
    assert publishes(broker, bundle, current)
    assert not publishes(broker, bundle, old)


def test_both_lists_count_during_a_rollover(
    authority: CertificateAuthority, broker: Broker, tmp_path: Path
) -> None:
    """Mosquitto reads both lists of crl.pem: what either authority revoked is refused."""
    bundle = authority.places.bundle
    before = saved(authority.issue("before"), tmp_path / "before")
    authority.revoke("before")
    rollover.begin(authority)
    rollover.switch(authority)
    after, good = authority.issue("after"), authority.issue_job("deadbeef")
    authority.revoke("after")
    broker.restart()
    assert [publishes(broker, bundle, item) for item in (before, after, good)] == [False, False, True]


def test_renewal_keeps_subscribers_connected(authority: CertificateAuthority, broker: Broker) -> None:
    """A renewed server certificate is taken over by SIGHUP while a subscriber stays connected."""
    bundle = authority.places.bundle
    issued = authority.issue("hermes")
    command = [_program("mosquitto_sub"), *_tls(broker, bundle, issued), "-C", "1", "-W", "30"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as subscriber:
        wait_for(lambda: "Sending SUBACK" in broker.log_file.read_text(), what="subscription")
        renewed = authority.renew("server")
        broker.reload()
        served = _served_serial(broker, bundle, issued)
        assert publishes(broker, bundle, issued)
        assert line_of(subscriber.stdout) == "x"
    assert served == renewed.serial


def _served_serial(broker: Broker, bundle: Path, issued: Issued) -> int:
    """Return the serial of the certificate that the broker shows to new connections."""
    where = f"127.0.0.1:{broker.port}"
    pair = ["-cert", str(issued.certfile), "-key", str(issued.keyfile)]
    command = [_program("openssl"), "s_client", "-connect", where, "-CAfile", str(bundle), *pair]
    shown = subprocess.run(command, input=b"", capture_output=True, check=False, timeout=60).stdout
    parse = [_program("openssl"), "x509", "-noout", "-serial"]
    answer = subprocess.run(parse, input=shown, capture_output=True, check=True, timeout=60).stdout
    return int(answer.decode().strip().removeprefix("serial="), 16)
