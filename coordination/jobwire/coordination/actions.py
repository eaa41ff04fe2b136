"""What `inbox init`, `inbox export` and `jobwire wait` do: they need the home's own disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobwire.coordination.places import open_store, place_to_make
from jobwire.core.told import say

if TYPE_CHECKING:
    from argparse import Namespace


def init(args: Namespace) -> int:
    """Make home and store; both stay as they are where they are there."""
    from jobwire.coordination.store import CoordinationStore  # noqa: PLC0415 - once a home
    from jobwire.registry.layout import HomeLayout  # noqa: PLC0415 - as above

    place = place_to_make(args, os.environ)
    HomeLayout(place.home).make_layout()
    store = CoordinationStore(place.home, path=place.path)
    body = {
        "home": os.path.abspath(place.home),
        "db": os.path.abspath(place.path),
        "event_id": store.latest_event(),
    }
    store.close()
    say(args, body, f"the store is {place.path}")
    return 0


def export(args: Namespace) -> int:
    """Append what is new to the file of all messages."""
    from jobwire.coordination.export import export_messages  # noqa: PLC0415 - as above

    store = open_store(args)
    exported = export_messages(store, args.output)
    body = {**exported._asdict(), "event_id": store.latest_event()}
    say(args, body, f"{exported.messages} messages more in {exported.path}")
    return 0


def wait(args: Namespace) -> int:
    """Wait for an event with a name that fits the pattern, and print it."""
    from jobwire.coordination.verb_actions import woken  # noqa: PLC0415 - as above
    from jobwire.coordination.waiting import wait_pattern  # noqa: PLC0415 - as above

    waited = wait_pattern(
        open_store(args), args.pattern, seconds=args.timeout_seconds, after=args.after_event
    )
    event = waited.found.event or {} if waited.found is not None else {}
    cursor = {"next_event_id": waited.next_event_id, "event_id": waited.next_event_id}
    found = {"woke": waited.found is not None, **cursor}
    woken(found, args.timeout_seconds, f"no event {args.pattern}")
    say(args, {**found, "event": event}, lambda: f"{event['names'][0]}  {event['summary']}")  # type: ignore[index]
    return 0
