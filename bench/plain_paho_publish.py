"""The yardstick of publish_bench: the least that a Python script with paho does to publish one message.

plain_paho_publish.py HOST PORT CA_FILE USER PASSWORD_FILE TOPIC PAYLOAD
"""

import ssl
import sys

import paho.mqtt.client as mqtt  # noqa: TID251 - this is what the transport is measured against
from paho.mqtt.enums import CallbackAPIVersion  # noqa: TID251 - as above


def main() -> int:
    """Connect, publish with QoS 1, wait for the PUBACK, disconnect."""
    host, port, ca_file, user, password_file, topic, payload = sys.argv[1:]
    client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    with open(password_file, encoding="utf-8") as file:  # noqa: PTH123 - the yardstick imports no more than it needs
        client.username_pw_set(user, file.read().rstrip("\n"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(ca_file)
    client.tls_set_context(context)
    client.connect(host, int(port))
    client.loop_start()
    message = client.publish(topic, payload, qos=1)
    message.wait_for_publish(10)
    client.disconnect()
    client.loop_stop()
    return 0 if message.is_published() else 1


if __name__ == "__main__":
    sys.exit(main())
