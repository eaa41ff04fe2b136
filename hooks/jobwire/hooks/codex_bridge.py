"""The second client of Codex's app-server, beside its pane: it asks people elsewhere, and wakes who is idle.

Whoever answers a request first settles it, and the server tells the other. A client is asked only about
threads that it has joined; those are made by the pane.
"""

from __future__ import annotations

import json
import threading
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.errors import JobwireError
from jobwire.hooks.asking import ask_person
from jobwire.hooks.codex_requests import asked_in, changes_in, ended_in, result_for
from jobwire.hooks.desk import open_desk, place_of
from jobwire.hooks.handling import handle
from jobwire.hooks.kinds import kind_of
from jobwire.hooks.raw_input import NoHookInputError, parse
from jobwire.hooks.signs import Sign, line_of, word
from jobwire.hooks.waking import wait_behind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from websockets.sync.connection import Connection

    from jobwire.hooks.signs import Said

# More questions at once are left to the pane; so are changes of more files than anybody looks at.
MAX_OPEN, MAX_CHANGES = 64, 64
_NAME = {"clientInfo": {"name": "jobwire", "title": "jobwire", "version": "0"}}
_SETTLING_SECONDS = 5.0


class _Asked(NamedTuple):
    """A question that a person elsewhere may answer, and whether the pane was quicker."""

    thread: threading.Thread
    settled: threading.Event


class CodexBridge:
    """What one connection to the server says becomes events and requests of the job, and answers go back.

    `complain` takes a line about what could not be done; the question stands at the pane then.
    """

    def __init__(
        self, connection: Connection, environ: Mapping[str, str], complain: Callable[[str], None]
    ) -> None:
        self._connection = connection
        self._environ = environ
        self._complain = complain
        self._kind = kind_of("codex")
        self._numbers = count(1)
        self._joining: dict[int, str] = {}
        self._joined: set[str] = set()
        self._turns: dict[str, str] = {}
        self._changes: dict[str, Sequence[object]] = {}
        self._asked: dict[str, _Asked] = {}

    def run(self) -> None:
        """Serve until the server ends the connection."""
        self._call("initialize", _NAME)
        self._send({"method": "initialized"})
        for raw in self._connection:
            try:
                self._take(parse(raw.encode() if isinstance(raw, str) else raw))
            except NoHookInputError as error:
                self._complain(str(error))

    def _take(self, body: Mapping[str, object]) -> None:
        method, given = body.get("method"), body.get("params")
        params: Mapping[str, object] = given if isinstance(given, dict) else {}
        if not isinstance(method, str):
            self._took_response(body)
        elif "id" in body:
            self._took_request(body["id"], method, params)
        else:
            self._took_notice(method, params)

    def _took_response(self, body: Mapping[str, object]) -> None:
        number = body.get("id")
        name = self._joining.pop(number, "") if isinstance(number, int) else ""
        if name and "result" in body:
            self._joined.add(name)

    def _took_notice(self, method: str, params: Mapping[str, object]) -> None:
        name = word(params, "threadId")
        if method == "thread/status/changed":
            # It can be joined once it has something to remember.
            if name not in self._joined:
                self._joining[self._call("thread/resume", {"threadId": name, "excludeTurns": True})] = name
        elif method == "item/started":
            self._note_changes(params)
        elif method == "turn/started":
            turn = params.get("turn")
            self._turns[name] = word(turn, "id") if isinstance(turn, dict) else ""
        elif method == "turn/completed":
            self._turns.pop(name, None)
            said = ended_in(params)
            if said is not None:
                self._apart(self._end_turn, said)
        elif method == "serverRequest/resolved" and (asked := self._asked.get(str(params.get("requestId")))):
            asked.settled.set()

    def _note_changes(self, params: Mapping[str, object]) -> None:
        item, changes = changes_in(params)
        if item:
            self._changes[item] = changes
            if len(self._changes) > MAX_CHANGES:
                self._changes.pop(next(iter(self._changes)))

    def _took_request(self, asked: object, method: str, params: Mapping[str, object]) -> None:
        changes = self._changes.get(word(params, "itemId"), ())
        said = asked_in(method, str(asked), params, changes)
        self._asked = {name: one for name, one in self._asked.items() if one.thread.is_alive()}
        if said is None or len(self._asked) >= MAX_OPEN:
            self._apart(self._leave_to_the_pane, said or method)
            return
        settled = threading.Event()
        thread = self._apart(self._ask, asked, params, said, settled)
        self._asked[str(asked)] = _Asked(thread, settled)

    def _ask(self, asked: object, params: Mapping[str, object], said: Said, settled: threading.Event) -> None:
        desk = open_desk(self._kind, self._environ)
        if desk is None or desk.voice.record().terminal:
            return
        answered = ask_person(desk, said, settled.is_set)
        result = result_for(said, params, answered)
        if result is None or settled.is_set():
            return
        self._send({"id": asked, "result": result})
        turn = self._turns.get(said.conversation, word(params, "turnId"))
        if answered.verdict == "deny" and turn:
            # A refusal has no room for words: they join the turn that goes on with it.
            words = _text(said.conversation, f"{line_of(said.tool, said.given)}: {answered.words}")
            self._call("turn/steer", {**words, "expectedTurnId": turn})

    def _leave_to_the_pane(self, said: Said | str) -> None:
        desk = open_desk(self._kind, self._environ)
        if desk is not None and not desk.voice.record().terminal:
            what = said if isinstance(said, str) else line_of(said.tool, said.given)
            desk.voice.say("permission_required", f"at its pane: {what}")

    def _end_turn(self, said: Said) -> None:
        for asked in list(self._asked.values()):
            if asked.settled.is_set():
                asked.thread.join(_SETTLING_SECONDS)
        desk = open_desk(self._kind, self._environ)
        if desk is not None and said.sign is not Sign.TURN_END:
            handle(desk, said)
        told = wait_behind(desk, place_of(self._environ), said)
        if told:
            self._call("turn/start", _text(said.conversation, told))

    def _apart(self, work: Callable[..., None], *given: object) -> threading.Thread:
        """Do what may take long beside the connection; an error of it is said, and stops nothing."""

        def guarded() -> None:
            try:
                work(*given)
            except JobwireError as error:
                self._complain(f"{error.message}; {error.hint}")
            except Exception as error:  # noqa: BLE001 - an agent is never stopped by a defect of ours
                self._complain(f"unexpected {type(error).__name__}: {error}")

        thread = threading.Thread(target=guarded, name=work.__name__, daemon=True)
        thread.start()
        return thread

    def _call(self, method: str, params: Mapping[str, object]) -> int:
        number = next(self._numbers)
        self._send({"id": number, "method": method, "params": params})
        return number

    def _send(self, body: Mapping[str, object]) -> None:
        self._connection.send(json.dumps(body))


def _text(conversation: str, text: str) -> dict[str, object]:
    return {"threadId": conversation, "input": [{"type": "text", "text": text}]}
