"""Two agents on the other host who talk through the storm: one gives work, one does it, both by tickets.

Each is killed once in the middle of its work and started again. In the end every piece was given once, said
once and handed in once.
"""

import signal
import sys
import threading
from collections import Counter
from pathlib import Path

from jobwire.certs.authority import CertificateAuthority
from jobwire.coordination.agent_ticket import AgentTicket, encode_agent_ticket
from jobwire.coordination.reading import messages_of, threads
from jobwire.coordination.remote_keys import AgentKeys
from jobwire.coordination.store import CoordinationStore
from jobwire.testing import wait_for
from tests.faults.storm.fleet import Child, Fleet, FleetClosedError, Kind
from tests.faults.storm.hosts import REGISTRY_ADDRESS, Hosts
from tests.faults.storm.services import Broker
from tests.faults.storm.talker import LEAD, WORKER

_TALKER = Path(__file__).with_name("talker.py")
_END_SECONDS = 600.0


class Talkers:
    """Starts both, kills each once after a third of its work, and examines what came of it."""

    def __init__(self, *, home: Path, broker: Broker, hosts: Hosts | None, fleet: Fleet, count: int) -> None:
        self._home = home
        self._broker = broker
        self._hosts = hosts
        self._fleet = fleet
        self._count = count
        self._failures: list[str] = []
        self._threads = [
            threading.Thread(target=self._talk, args=(role, name), name=name)
            for role, name in (("lead", LEAD), ("worker", WORKER))
        ]

    def start(self) -> None:
        """Let them talk."""
        for thread in self._threads:
            thread.start()

    def finish(self) -> list[str]:
        """Wait for their end and return what is wrong."""
        for thread in self._threads:
            thread.join()
        return self._failures + ([] if self._failures else self._examined())

    def _talk(self, role: str, name: str) -> None:
        try:
            child = self._started(role, name)
            self._end_early(child)
            child = self._started(role, name)
            code = child.process.wait(_END_SECONDS)
            if code:
                self._failures.append(f"{name} ended with {code}: {child.error_text()}")
        except FleetClosedError:
            return
        except Exception as error:  # noqa: BLE001 - a thread's failure is one of the storm's
            self._failures.append(f"{name}: {error!r}")

    def _end_early(self, child: Child) -> None:
        third = max(1, self._count // 3)

        def far_enough() -> bool:
            ended = child.process.poll() is not None
            return ended or len(child.output.read_text().splitlines()) >= third

        wait_for(far_enough, deadline_seconds=_END_SECONDS, what="a third of the talk")
        if child.process.poll() is None:
            child.process.send_signal(signal.SIGKILL)
        child.process.wait()

    def _started(self, role: str, name: str) -> Child:
        ticket = self._home.parent / "workers" / f"{name}.ticket"
        if not ticket.exists():
            self._write(ticket, name)
        command = [sys.executable, str(_TALKER), role, str(ticket), str(self._count)]
        if self._hosts is not None:
            command = self._hosts.on_workers(command)
        return self._fleet.start(Kind.TALKER, command)

    def _write(self, path: Path, name: str) -> None:
        issued = CertificateAuthority(self._broker.home / "certs").issue_agent(name)
        settings: dict[str, str | int] = {
            "broker": REGISTRY_ADDRESS if self._hosts is not None else self._broker.host,
            "port": self._broker.mtls_port,
            "tls": "on",
            "protocol": "5",
            "ca_certs_pem": self._broker.ca_certs.read_text(),
            "certfile_pem": issued.certfile.read_text(),
            "keyfile_pem": issued.keyfile.read_text(),
        }
        key = AgentKeys(str(self._home)).renew(name)
        path.touch(mode=0o600)
        path.write_bytes(encode_agent_ticket(AgentTicket(name, key, settings, self._broker.topic_root)))

    def _examined(self) -> list[str]:
        store = CoordinationStore(str(self._home))
        found = threads(store, created_by=LEAD, limit=10 * self._count)
        wrong = []
        given = Counter(one.subject for one in found)
        if given != Counter(f"task-{number}" for number in range(self._count)):
            wrong.append(f"work was given as {given}")
        for thread in found:
            kinds = [one.kind for one in messages_of(store, thread.thread_id)]
            if thread.status != "done" or kinds != ["task", "progress", "result"]:
                wrong.append(f"{thread.subject} is {thread.status} with {kinds}")
        store.close()
        return wrong
