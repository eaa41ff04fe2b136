"""amqtt's stream adapters with what a hardened connection needs besides: whole packets and a hard end."""

import asyncio
from contextlib import suppress
from typing import NamedTuple

from amqtt.adapters import BufferReader, StreamReaderAdapter, StreamWriterAdapter
from amqtt.errors import MQTTError
from amqtt.mqtt.packet import MQTTFixedHeader

from jobwire.core.override import override


class RawPacket(NamedTuple):
    """A fixed header and all the bytes that it announces."""

    header: MQTTFixedHeader
    body: bytes

    @property
    def reader(self) -> BufferReader:
        """Return a reader over the body for amqtt's decoders, which then cannot wait or read on."""
        return BufferReader(self.body)

    @property
    def whole_reader(self) -> BufferReader:
        """Return a reader over the packet from its first byte."""
        self.header.remaining_length = len(self.body)
        return BufferReader(self.header.to_bytes() + self.body)


class PacketReader(StreamReaderAdapter):
    """Reads one packet at a time, none larger than `max_packet_bytes`."""

    def __init__(self, reader: asyncio.StreamReader, *, max_packet_bytes: int) -> None:
        super().__init__(reader)
        self._max_packet_bytes = max_packet_bytes

    async def next_packet(self) -> RawPacket | None:
        """Return the next packet, None at the end of the stream; raises MQTTError for an oversized one."""
        header = await MQTTFixedHeader.from_stream(self)
        if header is None:
            return None
        if header.remaining_length > self._max_packet_bytes:
            raise MQTTError(f"a packet of {header.remaining_length} bytes, {self._max_packet_bytes} allowed")
        try:
            return RawPacket(header, await self.read(header.remaining_length))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None


class Writer(StreamWriterAdapter):
    """Writes without waiting, and can end a connection whose client does not read."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        super().__init__(writer)
        self.transport = writer.transport

    @property
    def unsent_bytes(self) -> int:
        """Return how much the client has not taken yet."""
        return self.transport.get_write_buffer_size()

    @override
    async def drain(self) -> None:
        """Wait until the client has read enough; a lost connection shows in the reader."""
        with suppress(ConnectionError):
            await super().drain()

    @override
    async def close(self) -> None:
        """Flush in the background and close; amqtt's would wait for a client that may never read."""
        self.shut()

    def shut(self) -> None:
        """Close as `close` does, which only its base class makes a coroutine."""
        self.is_closed = True
        self.transport.close()

    def abort(self) -> None:
        """End the connection at once."""
        self.is_closed = True
        self.transport.abort()
