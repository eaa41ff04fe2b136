"""What a person does on the page among the agents: reads, replies, ends a conversation, votes."""

from contextlib import closing
from functools import partial
from pathlib import Path

from jobwire.coordination import agents
from jobwire.coordination.agents import Joining
from jobwire.coordination.boards.boards import Boards
from jobwire.coordination.boards.phases import BoardTurn
from jobwire.coordination.home_key import home_key
from jobwire.coordination.liveness import AgentKind
from jobwire.coordination.message import NewMessage, split_words
from jobwire.coordination.replying import reply
from jobwire.coordination.sending import send
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.taking import drop, mark_read, redrive
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.coordination.work import ThreadWork
from jobwire.core.errors import ConflictError, InvalidInputError
from jobwire.core.topics import check_agent

KINDS = ("event", "answer", "question")
# What a person begins a conversation with.
BEGINNINGS = ("task", "question", "event")


def person_name(author: str) -> str:
    """Return the name among the agents of whoever acts on the page."""
    try:
        return check_agent(author)
    except InvalidInputError:
        return "page"


class PersonOnThePage:
    """The one whom the page's token lets in, as a participant. Methods raise as what they call."""

    def __init__(self, home: Path, name: str) -> None:
        self._home = home
        self._name = name

    def begin(
        self, *, to: str, kind: str, summary: str, body: str, priority: str, message_id: str
    ) -> dict[str, object]:
        """Begin a conversation; the same id again begins none. A task for nobody may be claimed by all."""
        if kind not in BEGINNINGS:
            raise InvalidInputError(
                f"a conversation begins with no {kind!r:.40}", hint=f"one of {', '.join(BEGINNINGS)}"
            )
        if not summary.strip():
            raise InvalidInputError("there is no summary", hint="say in one line what it is about")
        names = split_words(to)
        if not names and kind != "task":
            raise InvalidInputError("it is for nobody", hint="name an agent; only a task may be anybody's")
        with closing(self._joined()) as store:
            new = NewMessage(
                self._name, names, kind=kind, summary=summary, body=body, priority=priority, id=message_id
            )
            posted = send(store, new)
            return {"message_id": posted.message_id, "thread_id": posted.thread_id}

    def reply(self, thread_id: str, text: str, *, kind: str, message_id: str) -> dict[str, object]:
        """Say something in a conversation; the same id again says it once."""
        if kind not in KINDS:
            raise InvalidInputError(f"a reply is no {kind!r:.40}", hint=f"one of {', '.join(KINDS)}")
        if not text.strip():
            raise InvalidInputError("there is nothing in the reply", hint="write something")
        with closing(self._joined()) as store:
            new = NewMessage(self._name, kind=kind, thread_id=thread_id, body=text, id=message_id)
            said = reply(store, new)
            return {"message_id": said.posted.message_id, "answered": said.request}

    def cancel(self, thread_id: str, reason: str) -> dict[str, object]:
        """End a conversation, and with it the job that does its work."""
        with closing(self._joined()) as store:
            ended = ThreadWork(store, self._name).cancel(thread_id, reason)
            return {"thread_id": thread_id, "status": str(ended.thread.status)}

    def read(self, thread_id: str, through: int) -> dict[str, object]:
        """Note that the person has seen the conversation."""
        with closing(CoordinationStore(str(self._home))) as store:
            mark_read(store, self._name, thread_id, through)
            return {"thread_id": thread_id, "through": through}

    def say(self, board_id: str, turn: str, content: dict[str, object]) -> dict[str, object]:
        """Have the person's turn on a board that it is a member of."""
        if turn not in {str(one.value) for one in BoardTurn}:
            raise InvalidInputError(f"there is no turn {turn!r:.40}", hint="assess, discuss, pass or vote")
        with closing(CoordinationStore(str(self._home))) as store:
            view = Boards(store, key=home_key(store.home)).say(board_id, self._name, BoardTurn(turn), content)
            return {"board_id": board_id, "phase": view.phase.value}

    def settle(self, seq: int, agent: str, verb: str) -> dict[str, object]:
        """Queue a message that was given up for an agent again, or drop it for good."""
        if verb not in {"redrive", "drop"}:
            raise InvalidInputError(f"there is no verb {verb!r:.40}", hint="redrive or drop")
        with closing(CoordinationStore(str(self._home))) as store:
            act = redrive if verb == "redrive" else drop
            found = act(store, seq, agent, by=self._name)
            return {"states": [str(one.state) for one in found]}

    def manage(self, run: str, task: str, verb: str, *, reason: str, version: int) -> dict[str, object]:
        """Approve, reject, merge, retry or cancel a task as it was shown (`version`)."""
        with closing(self._joined()) as store:
            tasks = Tasks(store, self._name)
            verbs = {
                "approve": partial(tasks.review, task, run, approve=True, reason=reason),
                "reject": partial(tasks.review, task, run, approve=False, reason=reason),
                "merge": partial(tasks.merge, task, run),
                "retry": partial(tasks.retry, task, run),
                "cancel": partial(tasks.cancel, task, reason, run),
            }
            if verb not in verbs:
                raise InvalidInputError(f"there is no verb {verb!r:.40}", hint=f"one of {', '.join(verbs)}")
            found = verbs[verb](expect_version=version)
            return {"task_id": found.task_id, "status": str(found.status), "version": found.version}

    def _joined(self) -> CoordinationStore:
        """Return the store, in which the person is known as one: it may reply and end wherever it looks.

        Known, not present: nobody expects signs of life, and what is sent to all does not wait for it.
        """
        store = CoordinationStore(str(self._home))
        known = store.rows("agent_kind", {"agent_id": self._name})
        if known and known[0][0] != AgentKind.PERSON:
            store.close()
            raise ConflictError(
                f"{self._name} is a {known[0][0]} here, and this page would speak in its name",
                hint="let that agent join under another name",
                code="not_expected",
            )
        if not known:
            with store.changing() as change:
                agents.join(change, self._name, Joining(kind=AgentKind.PERSON))
                agents.leave(change, self._name)
        return store
