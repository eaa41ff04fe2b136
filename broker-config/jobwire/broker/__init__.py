"""Brokers: Mosquitto's configuration and the embedded broker under the same files."""

from jobwire.broker.embedded import EmbeddedBroker
from jobwire.broker.home import ROLES, BrokerPaths, prepare_home

__all__ = ["ROLES", "BrokerPaths", "EmbeddedBroker", "prepare_home"]
