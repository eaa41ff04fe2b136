"""Brokers: Mosquitto's configuration and the embedded broker under the same files."""

from jobwire.broker.embedded import EmbeddedBroker
from jobwire.broker.home import ROLES, BrokerPaths, mtls_port, prepare_home

__all__ = ["ROLES", "BrokerPaths", "EmbeddedBroker", "mtls_port", "prepare_home"]
