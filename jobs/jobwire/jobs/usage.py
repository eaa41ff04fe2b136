"""What an event says its job has used: the agreed keys of `data`.

`tokens_in`, `tokens_out` (whole numbers), `cost_usd` (dollars) and `model` (a name) speak of what was used
since the job's last event that said so, so that they add up.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

# Of one event. A hundred million of them an hour still add up in 64 bits.
MAX_TOKENS = 10**9
MAX_COST_USD = 10**4
MAX_MODEL = 64
KEYS = ("tokens_in", "tokens_out", "cost_usd", "model")
_MICRO = 1_000_000


class Usage(NamedTuple):
    """Tokens, and millionths of a dollar; `model` is "" where it was not said."""

    tokens_in: int = 0
    tokens_out: int = 0
    cost_micro_usd: int = 0
    model: str = ""


def usage_of(data: Mapping[str, object]) -> Usage | None:
    """Return what `data` says was used, None for nothing; what is out of bounds or no number is left out."""
    usage = Usage(
        _tokens(data.get("tokens_in")),
        _tokens(data.get("tokens_out")),
        _cost(data.get("cost_usd")),
        _model(data.get("model")),
    )
    return usage if any(usage[:3]) else None


def _tokens(value: object) -> int:
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else 0


def _cost(value: object) -> int:
    if type(value) not in (int, float) or not 0 <= value <= MAX_COST_USD or math.isnan(value):  # type: ignore[operator,arg-type]  # a number by now
        return 0
    return round(value * _MICRO)  # type: ignore[operator]  # as above


def _model(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= MAX_MODEL and value.isprintable() else ""
