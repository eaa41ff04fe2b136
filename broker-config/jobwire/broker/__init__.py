"""Brokers: Mosquitto's configuration, and the embedded broker on the same files. Import from the modules."""
