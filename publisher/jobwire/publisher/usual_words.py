"""The usual words of `publish_event`, read without argparse: that is a tenth of a worker's start.

What is not one of these options with its value is argparse's to read, to refuse or to explain.
"""

from __future__ import annotations

import os
from types import SimpleNamespace

from jobwire.core.bounds import fits_a_path
from jobwire.core.broker_layer import SETTINGS
from jobwire.delivery.outbox import DEFAULT_ATTEMPTS
from jobwire.jobs.lifecycle import EVENT_TRANSITIONS
from jobwire.publisher.variables import ENV_TICKET
from jobwire.storage.home import Need

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

# In the order of a job's life.
EVENTS = tuple(dict.fromkeys(event for _, event in EVENT_TRANSITIONS))
_FLAGS = frozenset({"--strict", "--direct", "--json"})
_TEXTS = frozenset({"--home", "--job", "--ticket", "--event", "--detail", "--data", "--data-json"})


def read_usual(words: Sequence[str]) -> Namespace | None:
    """Return what argparse would return for these words; None where it has to say so itself."""
    data: list[str] = []
    said: dict[str, object] = {}
    rest = iter(words)
    for word in rest:
        name = word[2:].replace("-", "_")
        if word in _FLAGS:
            said[name] = True
            continue
        value = next(rest, None)
        # Another option where a value belongs; `-` alone stands for stdin.
        if word not in _TEXTS or value is None or (value[:1] == "-" != value) or not fits_a_path(value):
            return None
        if name == "data":
            data.append(value)
        else:
            said[name] = value
    if said.get("event", "started") not in EVENTS:
        return None
    return SimpleNamespace(**{**_UNSAID, "data": data, **said})  # type: ignore[return-value]  # read alike


_UNSAID: dict[str, object] = {
    **dict.fromkeys(("home", "job", "ticket", "for_attempt", "event", "data_json", "confirm", "expiry")),
    **dict.fromkeys((*SETTINGS, "tls")),
    **dict.fromkeys(("strict", "direct", "json", "flush"), False),
    "detail": "",
    "attempts": DEFAULT_ATTEMPTS,
}


def ticket_of(args: Namespace, environ: Mapping[str, str]) -> str | None:
    """Return the ticket that option or environment names."""
    # A job named on the command line outranks a ticket that the environment happens to name.
    return args.ticket or (None if args.job else environ.get(ENV_TICKET)) or None


def home_need(args: Namespace) -> Need:
    """Return what the command needs: a ticket needs no home."""
    return Need.NOTHING if ticket_of(args, os.environ) else Need.HOME
