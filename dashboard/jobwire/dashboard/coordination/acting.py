"""What a person does on the page among the agents: verbs of agents, and some that only the page has.

A verb is a name and arguments, each of a kind (jobwire.coordination.verb_form); who acts is the person.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from jobwire.coordination import agents
from jobwire.coordination.agent_verbs import verb_named
from jobwire.coordination.agents import Joining
from jobwire.coordination.liveness import AgentKind
from jobwire.coordination.message import NewMessage, split_words
from jobwire.coordination.replying import reply
from jobwire.coordination.sending import send
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.taking import drop, mark_read, redrive
from jobwire.coordination.verb_form import TEXT, WHOLE, AgentVerb
from jobwire.core.errors import ConflictError, InvalidInputError
from jobwire.core.topics import check_agent
from jobwire.dashboard.coordination.sessions import resume_session, stop_session

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from jobwire.coordination.verb_form import VerbBody

KINDS = ("event", "answer", "question")
# What a person begins a conversation with.
BEGINNINGS = ("task", "question", "event")


def person_name(author: str) -> str:
    """Return the name among the agents of whoever acts on the page."""
    try:
        return check_agent(author)
    except InvalidInputError:
        return "page"


def act(home: Path, person: str, verb: str, args: Mapping[str, object]) -> dict[str, object]:
    """Do what the person asks for, and return what the page is told. Raises as the verb."""
    found = PAGE_VERBS.get(verb)
    if found is None:
        raise InvalidInputError(f"there is no verb {verb!r:.40}", hint=f"one of {', '.join(PAGE_VERBS)}")
    found.check(verb, args)
    with closing(CoordinationStore(str(home))) as store:
        if verb not in _SILENT:
            _make_known(store, person)
        return found.does(store, person, dict(args))


def _make_known(store: CoordinationStore, person: str) -> None:
    """Let the person be known as one: it may reply and end wherever it looks.

    Known, not present: nobody expects signs of life, and what is sent to all does not wait for it.
    """
    known = store.rows("agent_kind", {"agent_id": person})
    if known and known[0][0] != AgentKind.PERSON:
        raise ConflictError(
            f"{person} is a {known[0][0]} here, and this page would speak in its name",
            hint="let that agent join under another name",
            code="not_expected",
        )
    if not known:
        with store.changing() as change:
            agents.join(change, person, Joining(kind=AgentKind.PERSON))
            agents.leave(change, person)


def _one_of(what: str, value: str, known: Iterable[str]) -> None:
    names = tuple(known)
    if value not in names:
        raise InvalidInputError(f"{what} is {value!r:.40}", hint=f"one of {', '.join(names)}")


def _begin(store: CoordinationStore, person: str, args: dict[str, Any]) -> dict[str, object]:
    """Begin a conversation; the same id again begins none. A task for nobody may be claimed by all."""
    _one_of("kind", args["kind"], BEGINNINGS)
    if not args["summary"].strip():
        raise InvalidInputError("there is no summary", hint="say in one line what it is about")
    names = split_words(args.pop("to"))
    if not names and args["kind"] != "task":
        raise InvalidInputError("it is for nobody", hint="name an agent; only a task may be anybody's")
    posted = send(store, NewMessage(person, names, **args))
    return {"message_id": posted.message_id, "thread_id": posted.thread_id}


def _reply(store: CoordinationStore, person: str, args: dict[str, Any]) -> dict[str, object]:
    """Say something in a conversation; the same id again says it once."""
    _one_of("kind", args["kind"], KINDS)
    if not args["body"].strip():
        raise InvalidInputError("there is nothing in the reply", hint="write something")
    said = reply(store, NewMessage(person, **args))
    return {"message_id": said.posted.message_id, "answered": said.request}


def _read(store: CoordinationStore, person: str, args: dict[str, Any]) -> dict[str, object]:
    """Note that the person has seen the conversation."""
    if args["through"] < 0:
        raise InvalidInputError("through is below 0")
    mark_read(store, person, args["thread_id"], args["through"])
    return dict(args)


def _settle(store: CoordinationStore, person: str, args: dict[str, Any]) -> dict[str, object]:
    """Queue a message that was given up for an agent again, or drop it for good."""
    _one_of("verb", args["verb"], ("redrive", "drop"))
    settled = redrive if args["verb"] == "redrive" else drop
    found = settled(store, args["seq"], check_agent(args["agent"]), by=person)
    return {"states": [str(one.state) for one in found]}


def _stop(store: CoordinationStore, person: str, args: dict[str, Any]) -> dict[str, object]:
    return stop_session(store.home, args["name"], args["how"], by=person)


def _resume(store: CoordinationStore, person: str, args: dict[str, Any]) -> dict[str, object]:
    del person
    return resume_session(store.home, args["name"])


def _own(does: VerbBody, *texts: str, **others: str) -> AgentVerb:
    """Return a verb of the page alone, which needs all of its arguments."""
    takes = {**dict.fromkeys(texts, TEXT), **others}
    return AgentVerb(takes, does, tuple(takes))


def _as_shown(name: str) -> AgentVerb:
    """Return a verb of tasks that moves one as it was shown to the person, and no other."""
    found = verb_named(name)
    return found._replace(needs=(*found.needs, "expect_version"))


# They say nothing to agents, so that it does not matter whose name the person has.
_SILENT = ("read", "session-stop", "session-resume")
_SHARED = ("cancel", "board-assess", "board-discuss", "board-pass", "board-vote")
_OF_TASKS = ("task-review", "task-merge", "task-retry", "task-cancel")
PAGE_VERBS: Mapping[str, AgentVerb] = {
    "begin": _own(_begin, "to", "kind", "summary", "body", "priority", "id"),
    "reply": _own(_reply, "thread_id", "body", "kind", "id"),
    "read": _own(_read, "thread_id", through=WHOLE),
    "settle": _own(_settle, "agent", "verb", seq=WHOLE),
    "session-stop": _own(_stop, "name", "how"),
    "session-resume": _own(_resume, "name"),
    **{name: verb_named(name) for name in _SHARED},
    **{name: _as_shown(name) for name in _OF_TASKS},
}
