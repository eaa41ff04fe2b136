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
from jobwire.dashboard.broadcast import Broadcaster
from jobwire.dashboard.coordination.acting import act
from jobwire.dashboard.coordination.agents import agent_page
from jobwire.dashboard.coordination.boards import board_list, board_page
from jobwire.dashboard.coordination.conversation import conversation, found_page, whole_text
from jobwire.dashboard.coordination.locks import lock_view
from jobwire.dashboard.coordination.looking import LOOK_SECONDS, StoreWatch, looking
from jobwire.dashboard.coordination.sessions import session_list
from jobwire.dashboard.coordination.tasks import SHOWN, task_page
from jobwire.dashboard.coordination.threads import ThreadQuery, thread_page
from jobwire.dashboard.foreign import whole_number
from jobwire.dashboard.responses import Handler, action_route, event_message, json_response, read_object

Look = Callable[[CoordinationStore, QueryParams], dict[str, object]]
Streaming = Callable[[Request, AsyncIterator[bytes]], Response]
#: The addresses of the views: the one page, which finds its view by itself.
VIEWS = ("/conversations", "/agents", "/search", "/locks", "/boards", "/sessions", "/tasks")
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
        self._allow_actions = allow_actions

    def routes(self, streaming: Streaming) -> list[Route]:
        """Return every route; `streaming` answers with a stream of the page."""

        async def stream(request: Request) -> Response:
            return streaming(request, self._changes())

        return [
            Route("/api/store/stream", stream),
            Route("/api/message", self.text),
            *(Route(f"/api/{name}", self._looks(look)) for name, look in self._looked_at().items()),
            action_route("/api/act/{verb}", self.act, allowed=self._allow_actions),
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

    async def act(self, request: Request) -> Response:
        """Do what a person asks for among the agents, where actions were allowed at the start."""
        asked = await read_object(request, _MOST_REPLY)
        verb = str(request.path_params["verb"])
        return json_response(await run_in_threadpool(act, self._home, self._me, verb, asked))

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


def _place(asked: QueryParams, name: str) -> int | None:
    return whole_number(asked.get(name, ""))
