"""A sealed object: only what its holder's key signed is believed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.envelope import Envelope, open_sealed, seal
from jobwire.core.signature import SIGNATURE_FIELD, new_token

_VALUES = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=20)
_NAMES = st.text(max_size=10).filter(lambda name: name not in {SIGNATURE_FIELD, "superseded"})
BODY = {"kind": "answers", "id": "a", "n": 3}


@given(body=st.dictionaries(_NAMES, _VALUES | st.lists(_VALUES, max_size=3), max_size=6))
def test_what_is_sealed_is_opened(body: dict[str, object]) -> None:
    """Whatever is sealed, its holder reads as it was, and nobody else reads at all."""
    key, former = new_token(), new_token()
    sealed = seal(body, key, former_keys=[former])
    assert open_sealed(sealed, key, about={}) == Envelope(body, superseded=False)
    assert open_sealed(sealed, former, about={}) == Envelope(body, superseded=True)
    assert open_sealed(sealed, new_token(), about={}) is None


@pytest.mark.parametrize("name", ["n", "kind", "more"])
def test_no_field_can_be_changed_or_added(name: str) -> None:
    """The signature covers every field, also one that this version does not know."""
    key = new_token()
    forged = json.loads(seal(BODY, key)) | {name: "forged"}
    assert open_sealed(json.dumps(forged).encode(), key, about={}) is None


def test_a_genuine_envelope_of_another_thing_is_none() -> None:
    """What was sealed about one thing cannot be passed off as another's under the same key."""
    key = new_token()
    sealed = seal(BODY, key)
    assert open_sealed(sealed, key, about={"id": "b"}) is None
    assert open_sealed(sealed, key, about={"job_id": "a"}) is None
    assert open_sealed(sealed, key, about={"kind": "answers", "id": "a"}) is not None


@pytest.mark.parametrize("payload", [b"", b"[]", b"{}", b'{"hmac_sig":1}', b'{"superseded":{}}', b"\xff"])
def test_what_is_no_envelope_is_none(payload: bytes) -> None:
    """A stranger's bytes are no envelope, and no error either."""
    assert open_sealed(payload, new_token(), about={}) is None
