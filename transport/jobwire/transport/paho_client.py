"""paho's client, with our socket under it: the only module that imports paho."""

from collections.abc import Callable

from jobwire.core.override import override
from jobwire.transport.deferred import DeferredModule
from jobwire.transport.sockets import BufferedSocket

_unused = DeferredModule("urllib.request")
_unused.install()
try:
    # TID251: this is the one adapter.
    from paho.mqtt.client import Client, MQTTMessage  # noqa: TID251
    from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion  # noqa: TID251
    from paho.mqtt.packettypes import PacketTypes  # noqa: TID251
    from paho.mqtt.properties import Properties  # noqa: TID251
    from paho.mqtt.reasoncodes import ReasonCode  # noqa: TID251
    from paho.mqtt.subscribeoptions import SubscribeOptions  # noqa: TID251
finally:
    _unused.withdraw()

__all__ = [
    "MQTTMessage",
    "PahoClient",
    "ReasonCode",
    "SubscribeOptions",
    "connect_properties",
    "publish_properties",
]

# Of a text's length, and of a packet's id.
_LENGTH = 2
# The length of the properties where there are none.
_NONE = b"\0"


class PahoClient(Client):
    """A paho client that gets its connected socket from `opener`.

    `_create_socket` is paho's own seam for proxies and websockets, private by name, as `_handle_publish` is;
    unit tests hold both in place. Through the first come one deadline for all addresses, TCP_NODELAY before
    the TLS handshake, buffered reads and writes, and the reason why a connection broke, which paho only logs.
    """

    def __init__(
        self, opener: Callable[[], BufferedSocket], *, client_id: str, clean_session: bool, version5: bool
    ) -> None:
        super().__init__(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            clean_session=None if version5 else clean_session,
            protocol=MQTTProtocolVersion.MQTTv5 if version5 else MQTTProtocolVersion.MQTTv311,
            # Otherwise paho answers a refused version by trying MQTT 3.1, silently.
            reconnect_on_failure=False,
            manual_ack=True,
        )
        self._opener = opener
        # With this callback set, paho leaves writing to us, the one thread that touches the socket.
        self.on_socket_register_write = _leave_writing_to_the_loop

    @override
    def _create_socket(self) -> BufferedSocket:
        return self._opener()

    @override
    def _handle_publish(self) -> MQTTErrorCode:
        """Take in a PUBLISH; the usual one, with QoS 0 or 1 and no properties, without paho's decoder.

        For each message that one makes tables of all properties of MQTT 5 anew, which is a third of what
        receiving it costs (`make bench ARGS="subscribe"`). See MQTT 5, 3.3.2.
        """
        packet, flags = self._in_packet["packet"], self._in_packet["command"]
        qos = flags >> 1 & 3
        topic_end = _LENGTH + int.from_bytes(packet[:_LENGTH], "big")
        properties = topic_end + (_LENGTH if qos else 0)
        if (
            self._protocol != MQTTProtocolVersion.MQTTv5
            or qos > 1
            or packet[properties : properties + 1] != _NONE
        ):
            return super()._handle_publish()
        message = MQTTMessage(
            int.from_bytes(packet[topic_end:properties], "big"), bytes(packet[_LENGTH:topic_end])
        )
        message.dup, message.qos, message.retain = bool(flags & 8), qos, bool(flags & 1)
        message.payload = bytes(packet[properties + 1 :])
        self._handle_on_message(message)  # manual_ack: the acknowledgement is ours
        return MQTTErrorCode.MQTT_ERR_SUCCESS


def connect_properties(*, expiry_seconds: int, receive_maximum: int) -> Properties:
    """Return the MQTT 5 properties of CONNECT (3.1.2.11)."""
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho leaves it bare
    properties.SessionExpiryInterval = expiry_seconds
    properties.ReceiveMaximum = receive_maximum
    return properties


def publish_properties(*, expiry_seconds: int) -> Properties:
    """Return the MQTT 5 properties of a PUBLISH that expires (3.3.2.3.3)."""
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho leaves it bare
    properties.MessageExpiryInterval = expiry_seconds
    return properties


def _leave_writing_to_the_loop(client: Client, userdata: object, sock: object) -> None:
    """Do nothing: the loop asks `want_write` itself."""
