"""The block codec: what goes in comes out, and nothing else ever does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.errors import InvalidInputError
from jobwire.journal.block import (
    HEADER_BYTES,
    MAX_VERDICTS,
    check_body,
    decode_rows,
    encode_block,
    parse_header,
    sections,
)
from jobwire.journal.entry import Entry, Stored
from jobwire.journal.errors import BadBlockError

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_ENTRY = st.builds(
    Entry,
    received_at_us=st.integers(-(2**63), 2**63 - 1),
    topic=_TEXT,
    payload=st.binary(max_size=300),
    retained=st.booleans(),
    verdict=_TEXT,
    redelivered=st.booleans(),
)
_BATCH = st.lists(_ENTRY, min_size=1, max_size=30)


def _decode(data: bytes, position: int = 0) -> list[Stored]:
    header = parse_header(data, position)
    check_body(data, header, position)
    return decode_rows(data, header, position)


@given(_BATCH, st.integers(0, 2**62), st.integers(0, 5))
def test_round_trip(batch: list[Entry], base: int, before: int) -> None:
    """Every entry comes back as it was, at its offset, wherever the block stands in the bytes."""
    data = bytes(8 * before) + encode_block(base, batch) + b"what follows"
    rows = _decode(data, 8 * before)
    assert [row.offset for row in rows] == list(range(base, base + len(batch)))
    assert [tuple(row[1:]) for row in rows] == [tuple(entry) for entry in batch]


@given(_BATCH, st.data())
def test_any_truncation_is_noticed(batch: list[Entry], data: st.DataObject) -> None:
    """A block that is cut anywhere is not read."""
    block = encode_block(7, batch)
    cut = data.draw(st.integers(0, len(block) - 1))
    with pytest.raises(BadBlockError):
        _decode(block[:cut])


@given(_BATCH, st.data())
def test_any_changed_byte_is_noticed(batch: list[Entry], data: st.DataObject) -> None:
    """A block with one wrong byte, in header, column, text or padding, is not read."""
    block = bytearray(encode_block(7, batch))
    place = data.draw(st.integers(0, len(block) - 1))
    block[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BadBlockError):
        _decode(bytes(block))


@given(st.binary(max_size=400))
def test_noise_is_never_a_block(noise: bytes) -> None:
    """Bytes that no writer wrote are refused with the one named error."""
    with pytest.raises(BadBlockError):
        _decode(noise)
    with pytest.raises(BadBlockError):
        _decode(b"JWB1" + noise)


@given(_BATCH)
def test_sections_lie_on_multiples_of_eight(batch: list[Entry]) -> None:
    """An Arrow array may lie on the stored bytes: each column is aligned, the block has no loose end."""
    block = encode_block(0, batch)
    places = sections(parse_header(block))
    assert all(place % 8 == 0 for place in places)
    assert list(places) == sorted(places)
    assert places.end == len(block)


def test_a_single_small_entry_stays_small() -> None:
    """The fixed cost of a batch of one is under 200 bytes."""
    entry = Entry(1, "python/mqtt/jobs/0000000a/events", b"x" * 259, False, "accepted")
    assert len(encode_block(0, [entry])) - len(entry.payload) < HEADER_BYTES + 136


@pytest.mark.parametrize(
    "entry",
    [
        Entry(2**63, "t", b"", False, "accepted"),
        Entry(1, "\ud800", b"", False, "accepted"),
        Entry(1, "t", b"", False, "\udfff"),
    ],
)
def test_what_cannot_be_stored_is_invalid_input(entry: Entry) -> None:
    """A value outside the format is the caller's mistake, named as such."""
    with pytest.raises(InvalidInputError):
        encode_block(0, [entry])


def test_too_many_verdicts_are_invalid_input() -> None:
    """Verdicts are reasons, of which there are few; the column has one signed byte."""
    batch = [Entry(1, "t", b"", False, f"v{i}") for i in range(MAX_VERDICTS + 1)]
    assert len(_decode(encode_block(0, batch[:-1]))) == MAX_VERDICTS
    with pytest.raises(InvalidInputError):
        encode_block(0, batch)
