"""CRC32C (Castagnoli), the one checksum of the journal.

It finds every error of up to three bits in blocks of any size used here, where zlib's CRC-32 loses
that property beyond 11 kB, and current processors compute it with an instruction
(docs/adr/0201 has the measurement).
"""

import google_crc32c


def crc32c(data: bytes) -> int:
    """Return the checksum of `data`."""
    return int(google_crc32c.value(data))
