"""Brokers: Mosquitto's configuration and the embedded broker under the same files."""
