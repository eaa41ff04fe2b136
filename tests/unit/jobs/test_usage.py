"""What an event says was used: numbers within bounds, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.jobs.usage import KEYS, MAX_COST_USD, MAX_MODEL, MAX_TOKENS, Usage, usage_of

anything = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers())


def test_the_agreed_keys_are_read() -> None:
    """Tokens as they are, dollars in millionths, the model by name."""
    said = {"tokens_in": 1200, "tokens_out": 7, "cost_usd": 0.0123456, "model": "opus", "else": 1}
    assert usage_of(said) == Usage(1200, 7, 12346, "opus")


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"model": "opus"},
        {"tokens_in": True},
        {"tokens_in": "12"},
        {"tokens_in": -1},
        {"tokens_in": 1.5},
        {"tokens_out": MAX_TOKENS + 1},
        {"cost_usd": float("nan")},
        {"cost_usd": float("inf")},
        {"cost_usd": -0.1},
        {"cost_usd": MAX_COST_USD + 1},
    ],
)
def test_what_is_no_amount_counts_nothing(data: dict[str, object]) -> None:
    """A worker that says nonsense changes no sum."""
    assert usage_of(data) is None


@given(data=st.dictionaries(st.sampled_from(KEYS), anything))
def test_whatever_is_said_stays_within_bounds(data: dict[str, object]) -> None:
    """No value raises, or makes a sum that a database cannot hold."""
    usage = usage_of(data)
    if usage is not None:
        assert 0 <= usage.tokens_in <= MAX_TOKENS
        assert 0 <= usage.cost_micro_usd <= MAX_COST_USD * 10**6
        assert len(usage.model) <= MAX_MODEL
