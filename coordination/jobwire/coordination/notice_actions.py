"""What `jobwire notify` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.coordination import notices
from jobwire.coordination.command import say, who_am_i
from jobwire.coordination.message import split_words
from jobwire.coordination.places import open_store

if TYPE_CHECKING:
    from argparse import Namespace


def notify(args: Namespace) -> int:
    """Ask to be told, and tell at once what holds already."""
    agent = who_am_i(args)
    store = open_store(args)
    notice = notices.ask_for(store, agent, args.subject, split_words(args.when))
    notices.tell_due(store)
    body = {
        "notice": notice.id,
        "agent": agent,
        "subject": notice.subject,
        "when": list(notice.when),
        "event_id": notice.since,
    }
    say(args, body, f"{agent} gets a message once {notice.subject} is {' or '.join(notice.when)}")
    return 0
