"""`jobwire broker up` beyond 127.0.0.1: what it writes, clients on this host can use."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobwire.broker.home import named_broker, prepare_home
from jobwire.certs.authority import CertificateAuthority
from jobwire.core.topics import DEFAULT_ROOT
from jobwire.testing import free_port, require

SECONDS = 60
PORT = 8883
PROGRAM = Path(sys.executable).with_name("jobwire")
# Another host's view of a network: addresses that only these processes have.
NETWORK = 'ip link set lo up; ip addr add 10.9.8.7/32 dev lo; ip addr add fd00::7/128 dev lo; exec "$@"'
ALONE = ("unshare", "--net", "sh", "-ec", NETWORK, "sh")
LOOPBACK = ("localhost", "127.0.0.1", "::1")

in_a_network = pytest.mark.skipif(
    os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("nsenter") and shutil.which("ip")),
    reason="a network of one's own needs root, unshare, nsenter and ip",
)


class Up:
    """A running `jobwire broker up`, whose stderr is read at its end."""

    def __init__(self, home: Path, process: subprocess.Popen[str], *, alone: bool) -> None:
        self.home = home
        self._process = process
        self._inside = ("nsenter", "--net", f"--target={process.pid}") if alone else ()

    def jobwire(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command where the broker runs."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("MQTT_")}
        line = [*self._inside, str(PROGRAM), "--home", str(self.home), *words]
        return subprocess.run(
            line, env=kept | environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )

    def end(self) -> str:
        """End it and return what it said on stderr."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.communicate(timeout=SECONDS)[1]


@contextmanager
def up(home: Path, host: str, *options: str, port: int, alone: bool) -> Iterator[Up]:
    """Run a broker on `host`, alone in a network of its own or on this one's loopback."""
    if "--mosquitto" in options:
        require("mosquitto")
        options += ("--mtls-port", str(port + 1))
    line = [*(ALONE if alone else ()), str(PROGRAM), "--home", str(home), "broker", "up", "--host", host]
    with subprocess.Popen(
        [*line, "--port", str(port), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("broker ready on ")
            yield Up(home, process, alone=alone)
        finally:
            process.terminate()


def names(home: Path) -> tuple[str, ...]:
    """Return what the server certificate names."""
    return CertificateAuthority(home / "certs").inspect(home / "certs" / "server.pem").names


def hint(said: str) -> str:
    """Return the commands of the last hint."""
    last = [line for line in said.splitlines() if line.startswith("jobwire: hint: ")][-1]
    return "jobwire --home" + last.split("jobwire --home", 1)[1].removesuffix(", then start the broker again")


def obey(commands: str) -> None:
    """Run the commands of a hint as they stand."""
    path = f"{PROGRAM.parent}:{os.environ['PATH']}"
    subprocess.run(["sh", "-ec", commands], env={**os.environ, "PATH": path}, timeout=SECONDS, check=True)


@pytest.mark.parametrize("host", ["127.0.0.2", "::1", "localhost"])
def test_another_loopback_address(tmp_path: Path, host: str) -> None:
    """On every address of loopback the doctor finds a fresh home well, and there is nothing to say."""
    with up(tmp_path / "home", host, port=free_port(), alone=False) as broker:
        doctor = broker.jobwire("doctor")
        assert doctor.stdout.endswith("all is well\n"), doctor.stdout
        assert "jobwire:" not in broker.end()


@in_a_network
@pytest.mark.parametrize(
    ("host", "options"),
    [
        ("10.9.8.7", ("--beyond-loopback",)),
        ("10.9.8.7", ("--mosquitto",)),
        ("fd00::7", ("--mosquitto",)),
    ],
)
def test_an_address_of_this_host(tmp_path: Path, host: str, options: tuple[str, ...]) -> None:
    """A fresh home sends clients to the address, and the certificate holds there."""
    home = tmp_path / "home"
    with up(home, host, *options, port=PORT, alone=True) as broker:
        doctor = broker.jobwire("doctor")
        assert doctor.stdout.endswith("all is well\n"), doctor.stdout
        assert "jobwire:" not in broker.end()
    assert (named_broker(home), names(home)) == (host, (*LOOPBACK, host))


@in_a_network
@pytest.mark.parametrize(
    ("host", "options", "address"),
    [
        ("0.0.0.0", ("--beyond-loopback",), "127.0.0.1"),  # noqa: S104 - what is tested
        ("::", ("--beyond-loopback",), "::1"),
        ("::", ("--mosquitto",), "::1"),
    ],
)
def test_every_address(tmp_path: Path, host: str, options: tuple[str, ...], address: str) -> None:
    """A wildcard is reached on loopback, and the hint names the commands that add a name for other hosts."""
    home = tmp_path / "home"
    with up(home, host, *options, port=PORT, alone=True) as broker:
        doctor = broker.jobwire("doctor")
        assert doctor.stdout.endswith("all is well\n"), doctor.stdout
        said = broker.end()
    assert (named_broker(home), names(home)) == (address, LOOPBACK)
    obey(hint(said).replace("NAME", "box.example.org"))
    assert set(names(home)) == {*LOOPBACK, "box.example.org"}
    with up(home, host, *options, port=PORT, alone=True) as broker:
        assert broker.jobwire("doctor").stdout.endswith("all is well\n")
        assert "jobwire:" not in broker.end()


@pytest.mark.parametrize(
    ("host", "alone", "commands"),
    [("127.0.0.2", False, 1), pytest.param("10.9.8.7", True, 4, marks=in_a_network)],
)
def test_a_home_for_another_address(tmp_path: Path, host: str, *, alone: bool, commands: int) -> None:
    """Settings and certificate that do not fit are warned of, and the remedy helps as it stands."""
    home = tmp_path / "home"
    port = PORT if alone else free_port()
    prepare_home(home, port=port, topic_root=DEFAULT_ROOT, iterations=101)
    with up(home, host, "--beyond-loopback", port=port, alone=alone) as broker:
        assert "is not for the name" in broker.jobwire("doctor", MQTT_BROKER=host).stdout
        said = broker.end()
    assert f'says broker = "127.0.0.1" in [broker], this broker has "{host}"' in said
    assert f"the server certificate does not hold for {host}, clients refuse it" in said
    assert hint(said).count(" && ") == commands - 1
    obey(hint(said))
    settings = (home / "jobwire.toml").read_text().replace('"127.0.0.1"', f'"{host}"')
    (home / "jobwire.toml").write_text(settings)
    with up(home, host, "--beyond-loopback", port=port, alone=alone) as broker:
        said = broker.end()
    assert "certificate" not in said
    assert "broker =" not in said


def test_another_hosts_address_is_refused(tmp_path: Path) -> None:
    """An address that this host does not have writes nothing, so a mistyped one does not stay."""
    line = [str(PROGRAM), "--home", str(tmp_path / "home"), "broker", "up", "--host", "192.0.2.1"]
    said = subprocess.run(
        [*line, "--beyond-loopback"], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert said.returncode == 60
    assert "cannot listen on 192.0.2.1" in said.stderr
    assert not (tmp_path / "home").exists()
