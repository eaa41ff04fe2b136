"""MQTT connections: the one place that knows paho-mqtt, and the settings they are made from."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobwire.transport.paho_transport import PahoTransport
    from jobwire.transport.settings_files import load_settings

__all__ = ["PahoTransport", "load_settings"]


def __getattr__(name: str) -> object:
    """Load what is asked for: paho and ssl are half of a worker's start, which may need neither."""
    if name == "PahoTransport":
        from jobwire.transport.paho_transport import PahoTransport  # noqa: PLC0415

        return PahoTransport
    if name == "load_settings":
        from jobwire.transport.settings_files import load_settings  # noqa: PLC0415

        return load_settings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
