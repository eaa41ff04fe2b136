"""What the inbox's verbs do: arguments in, one call of the library, one object or words out."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from jobwire.coordination.command import say, who_am_i
from jobwire.coordination.message import MAX_BULK, Artifact, NewMessage, split_words
from jobwire.coordination.places import open_store, open_to_read, place_to_make
from jobwire.coordination.stored import thread_json
from jobwire.core.errors import InvalidInputError, JobwireError, NoWorkError
from jobwire.core.told import at_most

if TYPE_CHECKING:
    from argparse import Namespace
    from types import ModuleType

    from jobwire.coordination.sending import Posted
    from jobwire.coordination.store import CoordinationStore

# Hints where nothing is found, here and by a ticket.
NOTHING_TO_FETCH = "`inbox watch` waits for something"
NO_SUCH_WORDS = "word* finds any ending"


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


def send(args: Namespace) -> int:
    """Send a message."""
    from jobwire.coordination.sending import send as send_message  # noqa: PLC0415 - who reads sends nothing

    agent = who_am_i(args)
    kind = args.kind or ("task" if args.thread is None and args.in_reply_to is None else "event")
    expires = None if args.expires is None else int((time.time() + args.expires) * 1000)
    new = NewMessage(
        agent,
        split_words(args.to),
        kind=kind,
        type=args.type,
        thread_id=args.thread,
        subject=args.subject,
        run_id=args.run_id,
        task_id=args.task,
        in_reply_to=args.in_reply_to,
        correlation_id=args.correlation,
        acceptance=tuple(args.accept),
        risk=args.risk,
        priority=args.priority,
        message_class=args.message_class,
        expires_at_ms=expires,
    )
    store = open_store(args)
    sent = send_message(store, said(args, new))
    text = f"{sent.message_id} is {'there already' if sent.duplicate else 'kept'} in thread {sent.thread_id}"
    _say_posted(args, store, sent, text)
    return 0


def fetch(args: Namespace) -> int:
    """Show what there is for the agent."""
    from jobwire.coordination.reading import FETCHED  # noqa: PLC0415 - as above
    from jobwire.coordination.reading import fetch as fetch_threads  # noqa: PLC0415 - as above

    agent = who_am_i(args)
    statuses = _statuses(args.status) or (() if args.unread else FETCHED)
    store = open_to_read(args)
    found = fetch_threads(store, agent, statuses=statuses, limit=args.limit + 1, unread=args.unread)
    shown = [thread_json(one) for one in at_most(args, found)]
    body = {"threads": shown, "event_id": store.latest_event()}
    if not found:
        raise NoWorkError(f"nothing for {agent}", hint=NOTHING_TO_FETCH, response=body)
    say(args, body, lambda: _present().threads(shown))
    return 0


def show(args: Namespace) -> int:
    """Show a thread with its messages; whoever names itself has read them."""
    from jobwire.coordination.reading import (  # noqa: PLC0415 - as above
        last_messages_of,
        message_json,
        thread_of,
        ways_in,
    )

    store = open_to_read(args)
    with store.reading():
        thread = thread_of(store, args.thread)
        messages = last_messages_of(store, args.thread, args.limit or -1)
        ways = ways_in(store, args.thread)
        bodies = [message_json(store, one) | {"deliveries": ways.get(one.id, [])} for one in messages]
        last = store.latest_event()
    if (args.agent or os.environ.get("JOBWIRE_AGENT")) and messages:
        _mark_read(args, who_am_i(args), thread.thread_id, messages[-1].seq)
    shown = thread_json(thread)
    body = {"thread": shown, "messages": bodies, "event_id": last}
    say(args, body, lambda: _present().conversation(shown, bodies))
    return 0


def reply(args: Namespace) -> int:
    """Say something in a thread."""
    from jobwire.coordination.replying import reply as reply_in_thread  # noqa: PLC0415 - as above

    agent = who_am_i(args)
    new = NewMessage(
        agent,
        split_words(args.to),
        kind=args.kind,
        type=args.type,
        thread_id=args.thread,
        in_reply_to=args.in_reply_to,
    )
    store = open_store(args)
    sent, request = reply_in_thread(store, said(args, new), request=args.request)
    answered = ", and is the answer to its question" if request is not None else ""
    text = f"{sent.message_id} is in thread {sent.thread_id}{answered}"
    _say_posted(args, store, sent, text, request=request)
    return 0


def list_threads(args: Namespace) -> int:
    """List threads, the last changed first."""
    from jobwire.coordination.reading import threads  # noqa: PLC0415 - as above

    store = open_to_read(args)
    found = threads(
        store,
        agent=args.agent,
        statuses=_statuses(args.status),
        created_by=args.created_by,
        assigned_to=args.assigned_to,
        run_id=args.run_id,
        limit=args.limit + 1,
    )
    shown = [thread_json(one) for one in at_most(args, found)]
    body = {"threads": shown, "event_id": store.latest_event()}
    say(args, body, lambda: _present().threads(shown))
    return 0


def search(args: Namespace) -> int:
    """Find messages by their words."""
    from jobwire.coordination.reading import search as search_messages  # noqa: PLC0415 - as above

    store = open_to_read(args)
    found = search_messages(store, " ".join(args.words), below=args.before, limit=args.limit + 1)
    bodies = [one.to_json() for one in at_most(args, found)]
    body = {"messages": bodies, "event_id": store.latest_event()}
    if not found:
        raise NoWorkError("no message holds these words", hint=NO_SUCH_WORDS, response=body)
    say(args, body, lambda: "\n\n".join(map(_present().message, bodies)))
    return 0


def export(args: Namespace) -> int:
    """Append what is new to the file of all messages."""
    from jobwire.coordination.export import export_messages  # noqa: PLC0415 - as above

    store = open_store(args)
    exported = export_messages(store, args.output)
    body = {**exported._asdict(), "event_id": store.latest_event()}
    say(args, body, f"{exported.messages} messages more in {exported.path}")
    return 0


def said(args: Namespace, new: NewMessage) -> NewMessage:
    """Return the message with what the options of every writing verb say."""
    return new._replace(
        summary=args.summary,
        body=body_of(args),
        payload=args.payload_json,
        artifacts=tuple(_artifact(text) for text in args.artifact),
        id=args.id,
    )


def body_of(args: Namespace) -> str:
    """Return the text that --body says, or that --body-file holds."""
    if args.body_file is None:
        return args.body or ""
    if args.body is not None:
        raise InvalidInputError("the body is given twice", hint="as text or as file, not both")
    from jobwire.storage.named_files import read_named_text  # noqa: PLC0415 - as above

    return read_named_text(args.body_file, "body", limit=MAX_BULK)


def _artifact(text: str) -> Artifact:
    path, colon, kind = text.rpartition(":")
    if not colon or "/" in kind or not path:
        return Artifact(text)
    return Artifact(path, kind or "file")


def _statuses(text: str) -> tuple[str, ...]:
    from jobwire.coordination.thread import ThreadStatus  # noqa: PLC0415 - as above

    words = split_words(text)
    known = [str(status) for status in ThreadStatus]
    for word in words:
        if word not in known:
            raise InvalidInputError(f"there is no status {word!r}", hint=f"one of {', '.join(known)}")
    return words


def _present() -> ModuleType:
    """Return what writes for people: a program needs none of it."""
    from jobwire.coordination import present  # noqa: PLC0415 - see above

    return present


def _say_posted(args: Namespace, store: CoordinationStore, sent: Posted, text: str, **more: object) -> None:
    from jobwire.coordination.reading import thread_of  # noqa: PLC0415 - as above

    thread = thread_json(thread_of(store, sent.thread_id))
    say(args, {**sent._asdict(), "seq": sent.event_id, "thread": thread, **more}, text)


def _mark_read(args: Namespace, agent: str, thread_id: str, through: int) -> None:
    from jobwire.coordination.taking import mark_read  # noqa: PLC0415 - as above

    try:
        mark_read(open_store(args), agent, thread_id, through)
    except JobwireError as error:
        # Reading works where nothing can be written, on a disk that is full or read-only.
        sys.stderr.write(f"inbox: warning: not marked as read: {error.message}\n")
