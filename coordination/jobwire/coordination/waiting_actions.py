"""What `inbox watch`, `inbox wait-reply` and `jobwire wait` do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.coordination import present
from jobwire.coordination.command import say, who_am_i
from jobwire.coordination.message import split_words
from jobwire.coordination.places import open_store
from jobwire.coordination.reading import message_json, message_of, thread_of
from jobwire.coordination.stored import thread_json
from jobwire.coordination.waiting import Waited, wait_pattern
from jobwire.coordination.waiting import wait_reply as wait_for_reply
from jobwire.coordination.waiting import watch as watch_threads
from jobwire.core.errors import NoWorkError

if TYPE_CHECKING:
    from argparse import Namespace

    from jobwire.coordination.store import CoordinationStore
    from jobwire.coordination.waiting import Found


def wait_reply(args: Namespace) -> int:
    """Wait for a message of somebody else in a thread, and print it."""
    agent = who_am_i(args)
    store = open_store(args)
    waited = wait_for_reply(
        store,
        agent=agent,
        thread_id=args.thread,
        seconds=args.timeout_seconds,
        after=args.after_event,
        after_message=args.after_message,
        kinds=split_words(args.kinds),
    )
    found = _found(waited, f"no reply in thread {args.thread}", args.timeout_seconds)
    said = _message(store, found.seq)
    say(args, _woke(waited) | {"message": said}, present.message(said))
    return 0


def watch(args: Namespace) -> int:
    """Wait for activity that concerns the agent, and print its thread."""
    agent = who_am_i(args)
    store = open_store(args)
    waited = watch_threads(
        store,
        agent=agent,
        seconds=args.timeout_seconds,
        statuses=split_words(args.status),
        after=args.after_event,
    )
    found = _found(waited, f"nothing for {agent}", args.timeout_seconds)
    thread = thread_of(store, found.thread_id)
    shown = thread_json(thread)
    body = {"thread": shown} | ({} if found.seq is None else {"message": _message(store, found.seq)})
    say(args, _woke(waited) | body, present.threads([shown]))
    return 0


def wait(args: Namespace) -> int:
    """Wait for an event with a name that fits the pattern, and print it."""
    store = open_store(args)
    waited = wait_pattern(store, args.pattern, seconds=args.timeout_seconds, after=args.after_event)
    found = _found(waited, f"no event {args.pattern}", args.timeout_seconds)
    event = found.event or {}
    say(args, _woke(waited) | {"event": event}, f"{event['names'][0]}  {event['summary']}")  # type: ignore[index]
    return 0


def _found(waited: Waited, missing: str, seconds: float) -> Found:
    if waited.found is None:
        raise NoWorkError(
            f"{missing} within {seconds:g} s",
            hint=f"wait again with --after-event {waited.next_event_id}",
            code="timeout",
            response={"woke": False, "next_event_id": waited.next_event_id, "event_id": waited.next_event_id},
        )
    return waited.found


def _woke(waited: Waited) -> dict[str, object]:
    return {"woke": True, "next_event_id": waited.next_event_id, "event_id": waited.next_event_id}


def _message(store: CoordinationStore, seq: int | None) -> dict[str, object]:
    return message_json(store, message_of(store, seq or 0))
