"""Sends prepared MQTT packets as fast as the broker takes them: the load of subscribe_bench.

blast.py HOST PORT CA_FILE PACKETS_FILE COUNT

PACKETS_FILE begins with CONNECT. Waits for a line on standard input after CONNACK, sends the rest, and
ends after COUNT acknowledgements of four bytes each (MQTT 3.1.1).
"""

import socket
import ssl
import sys
import threading
from pathlib import Path

_ACK_BYTES = 4
_PIECE = 64 * 1024


def main() -> int:
    """Send everything and wait for the acknowledgements."""
    host, port, ca_file, packets, count = sys.argv[1:]
    raw = Path(packets).read_bytes()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(ca_file)
    with context.wrap_socket(socket.create_connection((host, int(port))), server_hostname=host) as link:
        connect = 2 + raw[1]
        link.sendall(raw[:connect])
        link.recv(_ACK_BYTES)
        print("ready", flush=True)
        sys.stdin.readline()
        sender = threading.Thread(target=_send, args=[link, raw[connect:]])
        sender.start()
        wanted = int(count) * _ACK_BYTES
        while wanted > 0:
            wanted -= len(link.recv(_PIECE))
        sender.join()
    return 0


def _send(link: ssl.SSLSocket, raw: bytes) -> None:
    for start in range(0, len(raw), _PIECE):
        link.sendall(raw[start : start + _PIECE])


if __name__ == "__main__":
    sys.exit(main())
