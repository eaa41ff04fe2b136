"""Doubles as a product: waiting for facts, a manual clock, an in-memory broker, real brokers on loopback."""

from jobwire.testing.clock import ManualClock
from jobwire.testing.embedded_server import EmbeddedServer
from jobwire.testing.homes import new_home
from jobwire.testing.in_memory import InMemoryBroker, InMemoryTransport, PublishedMessage
from jobwire.testing.mosquitto_server import MosquittoServer
from jobwire.testing.ports import free_port
from jobwire.testing.process import BrokerProcess
from jobwire.testing.requirements import find_program, require
from jobwire.testing.scripted import ScriptedServer
from jobwire.testing.waiting import wait_for

__all__ = [
    "BrokerProcess",
    "EmbeddedServer",
    "InMemoryBroker",
    "InMemoryTransport",
    "ManualClock",
    "MosquittoServer",
    "PublishedMessage",
    "ScriptedServer",
    "find_program",
    "free_port",
    "new_home",
    "require",
    "wait_for",
]
