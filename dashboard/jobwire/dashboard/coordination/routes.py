"""The routes of agents and conversations; the page's access rules hold for them as for all others."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
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
from jobwire.dashboard.coordination.agents import agent_page
from jobwire.dashboard.coordination.boards import board_list, board_page
from jobwire.dashboard.coordination.conversation import conversation, found_page, whole_text
from jobwire.dashboard.coordination.locks import lock_view
from jobwire.dashboard.coordination.looking import LOOK_SECONDS, StoreWatch, looking
from jobwire.dashboard.coordination.sessions import resume_session, session_list, stop_session
from jobwire.dashboard.coordination.tasks import SHOWN, task_page
from jobwire.dashboard.coordination.threads import ThreadQuery, thread_page
from jobwire.dashboard.foreign import whole_number
from jobwire.dashboard.responses import Handler, action_route, event_message, json_response, read_object

Look = Callable[[CoordinationStore, QueryParams], dict[str, object]]
Act = Callable[[dict[str, object]], dict[str, object]]
Streaming = Callable[[Request, AsyncIterator[bytes]], Response]
#: The addresses of the views: the one page, which finds its view by itself.
VIEWS = ("/conversations", "/agents", "/search", "/locks", "/boards", "/sessions", "/tasks")
_MOST = 2**62
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
            Route("/api/message", self.text),
            *(Route(f"/api/{name}", self._looks(look)) for name, look in self._looked_at().items()),
            *(
                action_route(f"/api/{name}", self._acts(act), allowed=self._allow_actions)
                for name, act in self._done().items()
            ),
        ]

    def _looked_at(self) -> dict[str, Look]:
        """Return what is read from the store, by the end of its address."""
        now, me = self._clock.now, self._me
        return {
            "conversations": lambda store, asked: thread_page(
                store,
                ThreadQuery(asked.get("state", ""), asked.get("agent", "")[:MAX_ID], _place(asked, "below")),
                me=me,
            ),
            "conversation": lambda store, asked: conversation(
                store,
                asked.get("thread", "")[: MAX_ID + 1],
                me=me,
                after=_place(asked, "after"),
                below=_place(asked, "below"),
            ),
            "agents": lambda store, _: agent_page(store, now()),
            "search": lambda store, asked: found_page(store, asked.get("q", ""), _place(asked, "below")),
            "locks": lambda store, _: lock_view(store).to_json(),
            "boards": lambda store, _: {"boards": board_list(store, now())},
            "board": lambda store, asked: board_page(
                store, asked.get("board", "")[: MAX_ID + 1], now(), me=me
            ),
            "tasks": lambda store, asked: task_page(
                store,
                asked.get("run", "")[:MAX_REFERENCE],
                now(),
                state=asked.get("state", ""),
                limit=_place(asked, "limit") or SHOWN,
            ),
            "sessions": lambda store, _: {"sessions": session_list(store)},
        }

    def _done(self) -> dict[str, Act]:
        """Return what a person does, by the end of its address."""
        person = self._person
        return {
            "conversation/begin": lambda asked: person.begin(
                message_id=_text(asked, "id"),
                **{name: _text(asked, name) for name in ("to", "kind", "summary", "body", "priority")},
            ),
            "conversation/reply": lambda asked: person.reply(
                _text(asked, "thread"),
                _text(asked, "text"),
                kind=_text(asked, "kind"),
                message_id=_text(asked, "id"),
            ),
            "conversation/cancel": lambda asked: person.cancel(
                _text(asked, "thread"), _text(asked, "reason")
            ),
            "conversation/read": lambda asked: person.read(_text(asked, "thread"), _number(asked, "through")),
            "message/settle": lambda asked: person.settle(
                _number(asked, "seq"), check_agent(_text(asked, "agent")), _text(asked, "verb")
            ),
            "board/say": lambda asked: person.say(
                _text(asked, "board"), _text(asked, "turn"), _object(asked, "content")
            ),
            "task": lambda asked: person.manage(
                _text(asked, "run"),
                _text(asked, "task"),
                _text(asked, "verb"),
                reason=_text(asked, "reason"),
                version=_number(asked, "version"),
            ),
            "session/stop": lambda asked: stop_session(
                self._home, _text(asked, "name"), _text(asked, "how"), by=self._me
            ),
            "session/resume": lambda asked: resume_session(self._home, _text(asked, "name")),
        }

    async def text(self, request: Request) -> Response:
        """Answer with a whole text of a message, as a file: never as something that a browser shows."""
        seq = whole_number(request.query_params.get("seq", ""))
        part = request.query_params.get("part", "body")
        if seq is None or part not in {"body", "payload"}:
            raise InvalidInputError("a text is a message's body or payload", hint="?seq=NUMBER&part=body")

        def read() -> str:
            with looking(self._home) as store:
                if store is None:
                    raise NotFoundError(
                        "no agent has written here yet", hint="`jobwire inbox send` begins", code="not_found"
                    )
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
            await self._broadcaster.changed(LOOK_SECONDS)

    def _looks(self, look: Look) -> Handler:
        async def handle(request: Request) -> Response:
            def read() -> dict[str, object]:
                with looking(self._home) as store:
                    if store is None:
                        return {"made": False}
                    return {"made": True, **look(store, request.query_params)}

            found = await run_in_threadpool(read)
            return json_response({"now": self._clock.now(), **found})

        return handle

    def _acts(self, act: Act) -> Handler:
        async def handle(request: Request) -> Response:
            asked = await read_object(request, _MOST_REPLY)
            return json_response(await run_in_threadpool(act, asked))

        return handle


def _place(asked: QueryParams, name: str) -> int | None:
    return whole_number(asked.get(name, ""))


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


def _object(asked: dict[str, object], name: str) -> dict[str, object]:
    value = asked.get(name, {})
    if not isinstance(value, dict):
        raise InvalidInputError(f"the {name} is no object", hint='{"final_verdict": "APPROVE"}')
    return value
