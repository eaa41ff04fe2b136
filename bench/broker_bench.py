"""What a connection costs on both brokers, with a password and with a certificate; and 500 of them at once.

Each sample is one fresh TCP connection: TLS 1.3 handshake, CONNECT, one QoS 1 publish with its PUBACK,
DISCONNECT. The client is the same small one everywhere (jobwire.testing.raw_mqtt): only the brokers differ.
The password's hash has the 1,000 iterations of a local home and the 210,000 of a rendered deployment.

    python bench/broker_bench.py [--rounds N] [--connections N] [--hold SECONDS]
"""

import argparse
import json
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from jobwire.broker.defaults import PRESENT_DAY_ITERATIONS
from jobwire.broker.passwd import MACHINE_ITERATIONS, PasswordFile
from jobwire.certs.authority import CertificateAuthority
from jobwire.core.clock import utc_timestamp
from jobwire.core.topics import Topics
from jobwire.testing import EmbeddedServer, MosquittoServer
from jobwire.testing.process import BrokerProcess
from jobwire.testing.raw_mqtt import RawClient, client_context

RESULTS = Path(__file__).resolve().parent / "results" / "broker.json"
ROUNDS = 40
WARM_UP = 3
CONNECTIONS = 500
HOLD_SECONDS = 60.0
JOB = "0a1b2c3d"
ROLE = "claude-worker"
PAYLOAD = b"x" * 259
_PING_SECONDS = 10.0
_P95 = 18  # the 19th of 20 quantiles' cuts


class Sample(NamedTuple):
    """Milliseconds from the TCP connection to the CONNACK, and to the end."""

    connected: float
    total: float


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--hold", type=float, default=HOLD_SECONDS, help="seconds to hold the connections")
    args = parser.parse_args()
    costs: dict[str, dict[str, float]] = {}
    with MosquittoServer() as mosquitto, EmbeddedServer() as embedded:
        for server in (mosquitto, embedded):
            costs |= connection_costs(server, args.rounds)
        held = hold(mosquitto, args.connections, args.hold)
    result = {
        "taken_at": utc_timestamp(time.time()),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "rounds": args.rounds,
        "connection_and_publish_milliseconds": costs,
        "held": held,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    report(costs, held)
    return 0


def connection_costs(server: BrokerProcess, rounds: int) -> dict[str, dict[str, float]]:
    """Return the costs on one broker; the ways to connect take turns, so that noise meets all alike."""
    password = (server.home / "passwords" / ROLE).read_text().strip()
    _set_iterations(server, ROLE, password, MACHINE_ITERATIONS)
    _set_iterations(server, "bench", password, PRESENT_DAY_ITERATIONS)
    acl = server.home / "broker" / "acl"
    acl.write_text(acl.read_text() + f"\nuser bench\ntopic write {Topics().events('+')}\n")
    server.restart()
    issued = CertificateAuthority(server.home / "certs").issue_job(JOB)
    plain = client_context(server.ca_certs)
    identified = client_context(server.ca_certs, issued.certfile, issued.keyfile)
    ways: dict[str, Callable[[], Sample]] = {
        "certificate": lambda: sample(lambda: RawClient(server.host, server.mtls_port, identified)),
    }
    for user, iterations in ((ROLE, MACHINE_ITERATIONS), ("bench", PRESENT_DAY_ITERATIONS)):
        ways[f"password, {iterations:,} iterations"] = lambda user=user: sample(  # type: ignore[misc]
            lambda: RawClient(server.host, server.port, plain), username=user, password=password
        )
    samples: dict[str, list[Sample]] = {name: [] for name in ways}
    for number in range(WARM_UP + rounds):
        for name, take in ways.items():
            taken = take()
            if number >= WARM_UP:
                samples[name].append(taken)
    return {f"{server.program}, {name}": summary(values) for name, values in samples.items()}


def _set_iterations(server: BrokerProcess, user: str, password: str, iterations: int) -> None:
    with PasswordFile.edit(server.home / "broker" / "passwd") as users:
        users.set(user, password, iterations=iterations)


def sample(
    connect: Callable[[], RawClient], *, username: str | None = None, password: str | None = None
) -> Sample:
    """Take one sample."""
    start = time.perf_counter()
    with connect() as client:
        client.connect(JOB, username=username, password=password)
        connected = time.perf_counter()
        client.publish(Topics().events(JOB), PAYLOAD)
        client.disconnect()
    end = time.perf_counter()
    return Sample((connected - start) * 1000, (end - start) * 1000)


def summary(samples: list[Sample]) -> dict[str, float]:
    """Return medians and the 95th percentile."""
    totals = [taken.total for taken in samples]
    return {
        "connected_median": round(statistics.median(taken.connected for taken in samples), 2),
        "total_median": round(statistics.median(totals), 2),
        "total_p95": round(statistics.quantiles(totals, n=20)[_P95], 2),
    }


def hold(server: MosquittoServer, count: int, seconds: float) -> dict[str, float]:
    """Hold `count` connections with a certificate each for `seconds`, all alive at the end."""
    _allow_descriptors(count)
    authority = CertificateAuthority(server.home / "certs")
    contexts = []
    for number in range(count):
        issued = authority.issue_job(f"{number:08x}")
        contexts.append(client_context(server.ca_certs, issued.certfile, issued.keyfile))
    before = memory(server)
    start = time.perf_counter()
    clients = [RawClient(server.host, server.mtls_port, context).connect("any") for context in contexts]
    connected = time.perf_counter() - start
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        for client in clients:
            client.settle()
        time.sleep(min(left, _PING_SECONDS))
    alive = sum(1 for client in clients if client.settle() == [])
    during = memory(server)
    for client in clients:
        client.disconnect()
    return {
        "connections": count,
        "alive_at_the_end": alive,
        "seconds": seconds,
        "connections_per_second": round(count / connected, 1),
        "memory_before_mib": before,
        "memory_held_mib": during,
        "kib_per_connection": round((during - before) * 1024 / count, 1),
    }


def memory(server: BrokerProcess) -> float:
    """Return the broker's resident memory in MiB."""
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
    return round(pages * resource.getpagesize() / 1_048_576, 2)


def _allow_descriptors(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count + 100:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 100), hard))


def report(costs: dict[str, dict[str, float]], held: dict[str, float]) -> None:
    """Print the tables."""
    print(f"{'connect, publish QoS 1, disconnect (ms)':<46}{'CONNACK':>9}{'total':>9}{'p95':>9}")
    for name, figures in costs.items():
        print(f"{name:<46}" + "".join(f"{value:>9.1f}" for value in figures.values()))
    print(
        f"\n{held['alive_at_the_end']:.0f} of {held['connections']:.0f} mTLS connections held for "
        f"{held['seconds']:.0f} s on Mosquitto: {held['memory_before_mib']} MiB before, "
        f"{held['memory_held_mib']} MiB with them ({held['kib_per_connection']} KiB each), "
        f"{held['connections_per_second']} new connections/s"
    )


if __name__ == "__main__":
    sys.exit(main())
