"""A store whose process serves agents on other hosts, over a broker in memory."""

import threading
from pathlib import Path

from jobwire.coordination.agent_ticket import AgentTicket, encode_agent_ticket
from jobwire.coordination.remote_agent import RemoteAgent
from jobwire.coordination.remote_keys import AgentKeys
from jobwire.coordination.remote_service import Crossing, RemoteService
from jobwire.coordination.store import CoordinationStore
from jobwire.core.ports import Transport
from jobwire.core.topics import Topics, agent_identity
from jobwire.testing.in_memory import InMemoryBroker


class AgentHost:
    """A store with a process that serves it, and agents elsewhere."""

    def __init__(self, folder: Path) -> None:
        self.store = CoordinationStore(str(folder / "home"))
        self.keys = AgentKeys(self.store.home)
        self.broker = InMemoryBroker()
        self.folder = folder
        self.journal: list[Crossing] = []
        self._stop = threading.Event()
        self.service = RemoteService(
            store=self.store,
            keys=self.keys,
            topics=Topics(),
            connect=lambda: self.broker.transport("registry-agents", clean_session=False),
            journal=self.journal.extend,
        )
        self._threads = [
            threading.Thread(target=body, args=(self._stop.is_set,))
            for body in (self.service.serve, self.service.ring)
        ]
        self._agents: list[RemoteAgent] = []

    def start(self) -> None:
        """Serve."""
        for thread in self._threads:
            thread.start()

    def connect(self, ticket: AgentTicket) -> Transport:
        """Return the connection of a ticket's agent, not connected yet."""
        return self.broker.transport(agent_identity(ticket.agent))

    def stop(self) -> None:
        """End everything."""
        for agent in self._agents:
            agent.close()
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(60)
        self.store.close()

    def ticket(self, name: str) -> Path:
        """Write a ticket."""
        path = self.folder / f"{name}.ticket"
        ticket = AgentTicket(name, self.keys.renew(name), {}, Topics().root)
        path.write_bytes(encode_agent_ticket(ticket))
        path.chmod(0o600)
        return path

    def remote(self, name: str) -> RemoteAgent:
        """Return an agent on another host."""
        agent = self.speaker(self.ticket(name))
        self._agents.append(agent)
        return agent

    def speaker(self, ticket: Path) -> RemoteAgent:
        """Return one more process that speaks by this ticket."""
        return RemoteAgent(ticket, connect=lambda found, _: self.connect(found))
