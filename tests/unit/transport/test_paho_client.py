"""Our client and paho's own take the same messages out of the same packets."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import Client, MQTTMessage  # noqa: TID251 - what ours is held against
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion  # noqa: TID251 - as above

from jobwire.transport.paho_client import PahoClient

_PUBLISH = 0x30
_FIELDS = ("mid", "dup", "qos", "retain", "payload")


def _clients(*, version5: bool) -> tuple[PahoClient, Client]:
    def never() -> Any:
        raise AssertionError

    ours = PahoClient(never, client_id="ours", clean_session=True, version5=version5)
    protocol = MQTTProtocolVersion.MQTTv5 if version5 else MQTTProtocolVersion.MQTTv311
    return ours, Client(CallbackAPIVersion.VERSION2, protocol=protocol, manual_ack=True)


def _taken(client: Client, flags: int, body: bytes) -> dict[str, object] | str:
    """Return the message that the client takes out of the packet, or the kind of its refusal."""
    found: list[MQTTMessage] = []
    client.on_message = lambda _client, _data, message: found.append(message)
    client._in_packet["command"], client._in_packet["packet"] = _PUBLISH | flags, bytearray(body)
    try:
        client._handle_publish()
    except Exception as error:  # noqa: BLE001 - whatever kind it is, both give it
        return type(error).__name__
    (message,) = found
    return {"topic": message._topic, **{name: getattr(message, name) for name in _FIELDS}}


@given(
    st.sampled_from([0, 1, 2, 3, 8, 10, 11]),
    st.binary(max_size=40),
    st.integers(1, 65_535),
    # Properties: without them (3.1.1), none, an expiry, a format.
    st.sampled_from([None, b"\0", b"\x05\x02\0\0\0\x3c", b"\x02\x01\x01"]),
    st.binary(max_size=60),
)
def test_the_same_message(
    flags: int, topic: bytes, packet_id: int, properties: bytes | None, payload: bytes
) -> None:
    """Whatever topic, payload and properties: every field is as paho's own decoder has it."""
    body = len(topic).to_bytes(2, "big") + topic + (packet_id.to_bytes(2, "big") if flags & 6 else b"")
    body += (properties or b"") + payload
    ours, paho = _clients(version5=properties is not None)
    assert _taken(ours, flags, body) == _taken(paho, flags, body)


@given(st.sampled_from([0, 2]), st.binary(max_size=12))
def test_the_same_refusal(flags: int, body: bytes) -> None:
    """A packet that is cut short or holds nonsense is refused by both or by neither."""
    ours, paho = _clients(version5=True)
    assert _taken(ours, flags, body) == _taken(paho, flags, body)


@pytest.mark.parametrize(
    ("seam", "caller"), [("_create_socket", "reconnect"), ("_handle_publish", "_packet_handle")]
)
def test_the_seams_in_paho_are_where_we_expect_them(seam: str, caller: str) -> None:
    """Paho still asks what we override: it takes effect."""
    assert seam in vars(Client)
    assert seam in getattr(Client, caller).__code__.co_names
