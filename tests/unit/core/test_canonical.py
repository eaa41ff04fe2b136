"""Canonical JSON is RFC 8785, byte for byte."""

import json

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.canonical import MAX_DEPTH, MAX_INTEGER, JsonShapeError, canonical_json, check_shape

text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.floats(-(2.0**53) + 1, 2.0**53 - 1)
    | st.floats(1e21, 1e300)
    | text
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_equal_to_the_reference_package(value: object) -> None:
    """Every JSON value gets exactly the bytes that the rfc8785 package gives it."""
    assert canonical_json(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@given(values)
def test_survives_a_round_trip(value: object) -> None:
    """Decoding and encoding again changes no byte: a signature stays valid through any parser."""
    once = canonical_json(value)
    assert canonical_json(json.loads(once)) == once


def test_keys_are_ordered_by_utf16() -> None:
    """A key beyond the basic plane sorts before U+E000 and above, as RFC 8785 section 3.2.3 asks."""
    assert canonical_json({"\ue000": 1, "\U0001f600": 2}) == '{"\U0001f600":2,"\ue000":1}'.encode()


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        MAX_INTEGER + 1,
        -MAX_INTEGER - 1,
        {1: 2},
        {"a": b"x"},
        object(),
        "\ud800",
    ],
)
def test_refuses_what_is_not_interoperable(value: object) -> None:
    """What another language would read differently is refused, not guessed."""
    with pytest.raises(JsonShapeError):
        canonical_json(value)


def test_depth_is_limited_exactly() -> None:
    """32 containers may nest, 33 may not."""
    value: object = 1
    for _ in range(MAX_DEPTH):
        value = [value]
    assert check_shape(value)
    with pytest.raises(JsonShapeError):
        check_shape([value])
