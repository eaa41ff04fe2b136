"""The routes of agents and conversations; the page's access rules hold for them as for all others."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jobwire.coordination.message import MAX_ID, MAX_REFERENCE
from jobwire.coordination.store import CoordinationStore
from jobwire.core.clock import Clock
from jobwire.core.errors import InvalidInputError, NotFoundError
from jobwire.core.topics import check_agent
from jobwire.dashboard.broadcast import Broadcaster
from jobwire.dashboard.coordination.acting import PersonOnThePage
from jobwire.dashboard.coordination.agent_rows import count_states
from jobwire.dashboard.coordination.agents import agent_rows
from jobwire.dashboard.coordination.boards import board_list, board_page
from jobwire.dashboard.coordination.conversation import conversation, whole_text
from jobwire.dashboard.coordination.found import found_page
from jobwire.dashboard.coordination.locks import lock_view
from jobwire.dashboard.coordination.looking import looking
from jobwire.dashboard.coordination.sessions import resume_session, session_list, stop_session
from jobwire.dashboard.coordination.store_watch import StoreWatch
from jobwire.dashboard.coordination.tasks import SHOWN, task_page
from jobwire.dashboard.coordination.threads import ThreadQuery, thread_page
from jobwire.dashboard.numbers import whole_number
from jobwire.dashboard.responses import error_responses, event_message, json_response, read_object, read_only

Look = Callable[[CoordinationStore, Request], dict[str, object]]
Act = Callable[[dict[str, object]], dict[str, object]]
Streaming = Callable[[Request, AsyncIterator[bytes]], Response]
#: The addresses of the views: the one page, which finds its view by itself.
VIEWS = ("/conversations", "/agents", "/search", "/locks", "/boards", "/sessions", "/tasks")
_MOST = 2**62
_LOOK_SECONDS = 0.25
_SIGN_OF_LIFE_LOOKS = 12
# Each character of a reply may take six bytes in JSON.
_MOST_REPLY = 256 * 1024


class StoreRoutes:
    """The handlers of everything that is read from the coordination store, and of what is done there."""

    def __init__(
        self,
        *,
        home: Path,
        watch: StoreWatch,
        broadcaster: Broadcaster,
        clock: Clock,
        person: str,
        allow_actions: bool,
    ) -> None:
        self._home = home
        self._watch = watch
        self._broadcaster = broadcaster
        self._clock = clock
        self._me = person
        self._person = PersonOnThePage(home, person)
        self._allow_actions = allow_actions

    def routes(self, streaming: Streaming) -> list[Route]:
        """Return every route; `streaming` answers with a stream of the page."""

        async def stream(request: Request) -> Response:
            return streaming(request, self._changes())

        return [
            Route("/api/store/stream", stream),
            Route("/api/conversations", self._looks(self._conversations)),
            Route("/api/conversation", self._looks(self._conversation)),
            Route("/api/agents", self._looks(self._agents)),
            Route("/api/search", self._looks(self._search)),
            Route("/api/locks", self._looks(self._locks)),
            Route("/api/boards", self._looks(self._boards)),
            Route("/api/board", self._looks(self._board)),
            Route("/api/message/settle", self._acts(self._settle), methods=["POST"]),
            Route("/api/tasks", self._looks(self._tasks)),
            Route("/api/task", self._acts(self._task), methods=["POST"]),
            Route("/api/sessions", self._looks(self._sessions)),
            Route("/api/session/stop", self._acts(self._stop), methods=["POST"]),
            Route("/api/session/resume", self._acts(self._resume), methods=["POST"]),
            Route("/api/message", error_responses(self.text)),
            Route("/api/conversation/begin", self._acts(self._begin), methods=["POST"]),
            Route("/api/conversation/reply", self._acts(self._reply), methods=["POST"]),
            Route("/api/conversation/cancel", self._acts(self._cancel), methods=["POST"]),
            Route("/api/conversation/read", self._acts(self._read), methods=["POST"]),
            Route("/api/board/say", self._acts(self._say), methods=["POST"]),
        ]

    async def text(self, request: Request) -> Response:
        """Answer with a whole text of a message, as a file: never as something that a browser shows."""
        seq, part = (
            whole_number(request.query_params.get("seq", "")),
            request.query_params.get("part", "body"),
        )
        if seq is None or part not in {"body", "payload"}:
            raise InvalidInputError("a text is a message's body or payload", hint="?seq=NUMBER&part=body")

        def read() -> str:
            with looking(self._home) as store:
                if store is None:
                    raise _no_store()
                return whole_text(store, seq, part)

        name = quote(f"message-{seq}-{part}.txt")
        headers = {"content-disposition": f"attachment; filename={name}"}
        content = (await run_in_threadpool(read)).encode(errors="replace")
        return Response(content, headers=headers, media_type="text/plain; charset=utf-8")

    async def _changes(self) -> AsyncIterator[bytes]:
        """Say at the beginning and at each change that the store is another; what it is, is asked for."""
        seen, looks = -1, 0
        while not self._broadcaster.closed:
            number = self._watch.number
            if number != seen or looks >= _SIGN_OF_LIFE_LOOKS:
                kind = "changed" if number != seen else "alive"
                seen, looks = number, 0
                yield event_message(
                    kind, {"now": self._clock.now(), "trouble": self._watch.trouble}, str(number)
                )
            looks += 1
            await self._broadcaster.changed(_LOOK_SECONDS)

    def _looks(self, look: Look) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            def read() -> dict[str, object]:
                with looking(self._home) as store:
                    return {"made": False} if store is None else {"made": True, **look(store, request)}

            found = await run_in_threadpool(read)
            return json_response({"now": self._clock.now(), **found})

        return error_responses(handle)

    def _acts(self, act: Act) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            if not self._allow_actions:
                return read_only()
            asked = await read_object(request, _MOST_REPLY)
            return json_response(await run_in_threadpool(act, asked))

        return error_responses(handle)

    def _conversations(self, store: CoordinationStore, request: Request) -> dict[str, object]:
        values = request.query_params
        below = whole_number(values.get("below", ""))
        query = ThreadQuery(values.get("state", ""), values.get("agent", "")[:MAX_ID], below)
        return thread_page(store, query, me=self._me)

    def _conversation(self, store: CoordinationStore, request: Request) -> dict[str, object]:
        values = request.query_params
        between = {
            name: number
            for name in ("after", "below")
            if (number := whole_number(values.get(name, ""))) is not None
        }
        return conversation(store, values.get("thread", "")[: MAX_ID + 1], me=self._me, **between)

    def _agents(self, store: CoordinationStore, request: Request) -> dict[str, object]:  # noqa: ARG002 - a look's form
        rows = agent_rows(store, self._clock.now())
        return {"agents": [row._asdict() for row in rows], "counts": count_states(rows)}

    def _search(self, store: CoordinationStore, request: Request) -> dict[str, object]:
        values = request.query_params
        return found_page(store, values.get("q", ""), whole_number(values.get("below", "")))

    def _locks(self, store: CoordinationStore, request: Request) -> dict[str, object]:  # noqa: ARG002 - a look's form
        return lock_view(store).to_json()

    def _boards(self, store: CoordinationStore, request: Request) -> dict[str, object]:  # noqa: ARG002 - a look's form
        return {"boards": board_list(store, self._clock.now())}

    def _board(self, store: CoordinationStore, request: Request) -> dict[str, object]:
        name = request.query_params.get("board", "")[: MAX_ID + 1]
        return board_page(store, name, self._clock.now(), me=self._me)

    def _say(self, asked: dict[str, object]) -> dict[str, object]:
        content = asked.get("content", {})
        if not isinstance(content, dict):
            raise InvalidInputError("the content is no object", hint='{"final_verdict": "APPROVE"}')
        return self._person.say(_text(asked, "board"), _text(asked, "turn"), content)

    def _tasks(self, store: CoordinationStore, request: Request) -> dict[str, object]:
        values = request.query_params
        run, state = values.get("run", "")[:MAX_REFERENCE], values.get("state", "")
        limit = whole_number(values.get("limit", "")) or SHOWN
        return task_page(store, run, self._clock.now(), state=state, limit=limit)

    def _task(self, asked: dict[str, object]) -> dict[str, object]:
        return self._person.manage(
            _text(asked, "run"),
            _text(asked, "task"),
            _text(asked, "verb"),
            reason=_text(asked, "reason"),
            version=_number(asked, "version"),
        )

    def _sessions(self, store: CoordinationStore, request: Request) -> dict[str, object]:  # noqa: ARG002 - a look's form
        return {"sessions": session_list(store)}

    def _stop(self, asked: dict[str, object]) -> dict[str, object]:
        return stop_session(self._home, _text(asked, "name"), _text(asked, "how"), by=self._me)

    def _resume(self, asked: dict[str, object]) -> dict[str, object]:
        return resume_session(self._home, _text(asked, "name"))

    def _begin(self, asked: dict[str, object]) -> dict[str, object]:
        words = {name: _text(asked, name) for name in ("to", "kind", "summary", "body", "priority")}
        return self._person.begin(**words, message_id=_text(asked, "id"))

    def _reply(self, asked: dict[str, object]) -> dict[str, object]:
        return self._person.reply(
            _text(asked, "thread"),
            _text(asked, "text"),
            kind=_text(asked, "kind"),
            message_id=_text(asked, "id"),
        )

    def _cancel(self, asked: dict[str, object]) -> dict[str, object]:
        return self._person.cancel(_text(asked, "thread"), _text(asked, "reason"))

    def _settle(self, asked: dict[str, object]) -> dict[str, object]:
        seq = _number(asked, "seq")
        return self._person.settle(seq, check_agent(_text(asked, "agent")), _text(asked, "verb"))

    def _read(self, asked: dict[str, object]) -> dict[str, object]:
        return self._person.read(_text(asked, "thread"), _number(asked, "through"))


def _text(asked: dict[str, object], name: str) -> str:
    value = asked.get(name, "")
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} is not a text")
    return value


def _number(asked: dict[str, object], name: str) -> int:
    value = asked.get(name)
    if type(value) is not int or not 0 <= value < _MOST:
        raise InvalidInputError(f"{name} is not a whole number from 0 on")
    return value


def _no_store() -> NotFoundError:
    return NotFoundError(
        "no agent has written here yet", hint="`jobwire inbox send` begins", code="not_found"
    )
