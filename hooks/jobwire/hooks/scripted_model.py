"""A model server on loopback that says what is written down, to the real agents' programs.

It answers the Anthropic Messages and the OpenAI Responses interface with their event streams. A script is a
list of turns; each request of a conversation that has tools takes the next one, whatever else a program asks
its model for (a title, a summary) gets a word. Nothing leaves this host.
"""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

from jobwire.core.override import override

MODEL = "claude-sonnet-4-5"
_MOST = 32 * 1024 * 1024
_USAGE = {"input_tokens": 1200, "cache_read_input_tokens": 300, "output_tokens": 40}


class Says(NamedTuple):
    """A turn's last words."""

    text: str
    delay_seconds: float = 0.0


class Calls(NamedTuple):
    """A call of a tool."""

    name: str
    given: Mapping[str, object]


class Fails(NamedTuple):
    """The service fails: an HTTP status, and the error's type."""

    status: int
    kind: str = "overloaded_error"


Turn = Says | Calls | Fails


class ScriptedModel:
    """Runs the script for whoever connects; `requests` are the bodies of the conversation so far."""

    def __init__(self, *turns: Turn) -> None:
        self._turns = list(turns)
        self._guard = threading.Lock()
        self.requests: list[dict[str, Any]] = []
        self._numbers = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Model,), {"model": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="model", daemon=True)

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def left(self) -> int:
        """Return how many turns nobody has asked for yet."""
        with self._guard:
            return len(self._turns)

    def said(self, text: str) -> bool:
        """Tell whether a request of the conversation carried `text`."""
        with self._guard:
            return any(text in json.dumps(one, ensure_ascii=False) for one in self.requests)

    def turn_for(self, body: dict[str, Any]) -> Turn:
        """Return what to answer to a request."""
        with self._guard:
            if not body.get("tools"):
                return Says("ok")
            self.requests.append(body)
            return self._turns.pop(0) if self._turns else Says("the script has ended")

    def number(self) -> int:
        """Return a number that was not given before."""
        with self._guard:
            self._numbers += 1
            return self._numbers

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ScriptedModel

    def do_GET(self) -> None:
        self._answer(200, {"object": "list", "data": [], "models": []})

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        raw = self.rfile.read(min(int(self.headers.get("content-length") or 0), _MOST))
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = {}
        path = self.path.partition("?")[0]
        if path.endswith("/count_tokens"):
            self._answer(200, {"input_tokens": 1})
        elif path.endswith(("/messages", "/responses")):
            self._converse(body, anthropic=path.endswith("/messages"))
        else:
            self._answer(404, {"error": {"type": "not_found_error", "message": path}})

    def _converse(self, body: dict[str, Any], *, anthropic: bool) -> None:
        turn = self.model.turn_for(body)
        if isinstance(turn, Says):
            time.sleep(turn.delay_seconds)
        if isinstance(turn, Fails):
            error = {"type": turn.kind, "message": f"scripted {turn.kind}"}
            self._answer(turn.status, {"type": "error", "error": error})
            return
        number = self.model.number()
        if anthropic and not body.get("stream"):
            self._answer(200, _message(turn, number))
            return
        events = _anthropic(turn, number) if anthropic else _openai(turn, number)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for event in events:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
        self.close_connection = True

    def _answer(self, status: int, body: object) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    @override
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing: a program's own output is what a test reads."""


def _block(turn: Says | Calls, number: int) -> dict[str, object]:
    if isinstance(turn, Says):
        return {"type": "text", "text": turn.text}
    return {"type": "tool_use", "id": f"toolu_{number:06d}", "name": turn.name, "input": dict(turn.given)}


def _message(turn: Says | Calls, number: int) -> dict[str, object]:
    return {
        "id": f"msg_{number:06d}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [_block(turn, number)],
        "stop_reason": "end_turn" if isinstance(turn, Says) else "tool_use",
        "stop_sequence": None,
        "usage": _USAGE,
    }


def _anthropic(turn: Says | Calls, number: int) -> Iterator[dict[str, object]]:
    """Give the stream of a message: the documented events of the Messages interface."""
    whole = _message(turn, number)
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
    block = _block(turn, number)
    if isinstance(turn, Says):
        empty: dict[str, object] = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": turn.text}
    else:
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    yield {"type": "content_block_start", "index": 0, "content_block": empty}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    ending = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": _USAGE}
    yield {"type": "message_stop"}


def _item(turn: Says | Calls, number: int) -> dict[str, object]:
    if isinstance(turn, Says):
        content = [{"type": "output_text", "text": turn.text, "annotations": []}]
        return {"type": "message", "role": "assistant", "id": f"msg_{number}", "content": content}
    named = {"id": f"fc_{number}", "call_id": f"call_{number}", "name": turn.name}
    return {"type": "function_call", **named, "arguments": json.dumps(dict(turn.given))}


def _openai(turn: Says | Calls, number: int) -> Iterator[dict[str, object]]:
    """Give the stream of a response: the events of the Responses interface that its readers need."""
    identity = f"resp_{number}"
    yield {"type": "response.created", "response": {"id": identity}}
    yield {"type": "response.output_item.done", "output_index": 0, "item": _item(turn, number)}
    usage = {
        "input_tokens": 1200,
        "input_tokens_details": {"cached_tokens": 300},
        "output_tokens": 40,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 1240,
    }
    yield {"type": "response.completed", "response": {"id": identity, "output": [], "usage": usage}}
