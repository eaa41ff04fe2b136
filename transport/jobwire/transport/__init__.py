"""MQTT connections: the one place that knows paho-mqtt, and the settings they are made from."""

from jobwire.transport.paho_transport import PahoTransport
from jobwire.transport.settings_files import load_settings

__all__ = ["PahoTransport", "load_settings"]
