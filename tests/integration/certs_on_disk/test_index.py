"""The index of serials."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobwire.certs.index import Index, SerialEntry
from jobwire.certs.values import Kind, RevocationReason
from jobwire.core.errors import StorageError

_TIMES = st.floats(min_value=0, max_value=4e9, allow_nan=False)
_ENTRIES = st.builds(
    SerialEntry,
    serial=st.integers(min_value=1, max_value=2**159),
    name=st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True),
    kind=st.sampled_from(list(Kind)),
    issuer=st.from_regex(r"[0-9a-f]{40}", fullmatch=True),
    not_before=_TIMES,
    not_after=_TIMES,
    revoked_at=st.none() | _TIMES,
    reason=st.just(RevocationReason.UNSPECIFIED),
)
_ENTRY = SerialEntry(255, "hermes", Kind.ROLE, "ab", 1.0, 2.0)


@settings(max_examples=25)  # each writes and syncs a real file
@given(st.lists(_ENTRIES, unique_by=lambda entry: entry.serial, max_size=5))
def test_round_trip(entries: list[SerialEntry]) -> None:
    """What is written is what is read, revocations included."""
    with tempfile.TemporaryDirectory() as folder:
        index = Index(Path(folder) / "index")
        index.rewrite(entries)
        assert list(index.entries().values()) == entries


def test_revocation_is_remembered_with_its_reason(tmp_path: Path) -> None:
    """A revoked entry carries when and why."""
    index = Index(tmp_path / "index")
    index.add(_ENTRY)
    index.revoke(255, at=1.5, reason=RevocationReason.KEY_COMPROMISE)
    assert index.entries()[255] == _ENTRY._replace(revoked_at=1.5, reason=RevocationReason.KEY_COMPROMISE)


def test_torn_last_line_is_ignored(tmp_path: Path) -> None:
    """A crash in the middle of a line loses a certificate that was never written, nothing else."""
    path = tmp_path / "index"
    index = Index(path)
    index.add(_ENTRY)
    path.write_bytes(path.read_bytes() + b'{"event":"iss')
    assert list(index.entries()) == [255]


@pytest.mark.parametrize(
    "line", [b"nonsense", b"{}", b"[]", b'{"event":"revoked","serial":"1"}', b'{"event":"x","serial":"ff"}']
)
def test_damaged_line_is_named(tmp_path: Path, line: bytes) -> None:
    """Damage is an error with the line number, never a shorter index: a revocation could hide in it."""
    path = tmp_path / "index"
    index = Index(path)
    index.add(_ENTRY)
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(StorageError) as caught:
        index.entries()
    assert caught.value.facts["line"] == 2
