"""What a command asks in its output, and the answers on its standard input: a line each, in order."""

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import SimpleQueue

from jobwire.core.clock import Clock
from jobwire.core.errors import JobwireError
from jobwire.core.redaction import Redactor
from jobwire.jobs.request_form import REQUEST, RESOLVED, RequestKind, request_body
from jobwire.publisher.asking import HomeAnswers, new_request_id
from jobwire.registry.event_log import HomeEventLog
from jobwire.registry.store import RecordStore
from jobwire.runner.progress import Report

_LOOK_SECONDS = 1.0
_PERMISSION = ("yes", "no")


class AnsweredInput:
    """A pipe that is the command's standard input, and a thread that writes answers into it.

    `source` is the end that the command reads. `keep` takes events, from any thread; `complain` hears once
    why no more answers come.
    """

    def __init__(
        self, store: RecordStore, job_id: str, attempt: int, *, complain: Callable[[str], None], clock: Clock
    ) -> None:
        self.source, self._sink = os.pipe()
        self._job_id = job_id
        self._answers = HomeAnswers(HomeEventLog(store, job_id, attempt=attempt), clock=clock)
        self._complain = complain
        self._redactor = Redactor(os.environ)
        self._asked: SimpleQueue[str] = SimpleQueue()
        self._closing = threading.Event()
        self._keep: Callable[[str, str, Mapping[str, object]], object] | None = None
        self._thread = threading.Thread(target=self._loop, name="answers", daemon=True)

    def start(self, keep: Callable[[str, str, Mapping[str, object]], object]) -> None:
        """Begin to write; the command has been started, or is about to be."""
        self._keep = keep
        self._thread.start()

    def request(self, report: Report) -> dict[str, object]:
        """Return the data of the event that asks; once that is kept, `asked` waits for its answer."""
        kind = RequestKind.QUESTION if report.question else RequestKind.PERMISSION
        body = request_body(
            new_request_id(self._job_id),
            self._redactor.mask_secrets(report.detail),
            kind=kind,
            choices=() if report.question else _PERMISSION,
        )
        return {REQUEST: body}

    def asked(self, data: Mapping[str, object]) -> None:
        """Wait for the answer to what was kept, after those to what was asked before."""
        body = data[REQUEST]
        if isinstance(body, dict):
            self._asked.put(str(body["id"]))

    def begun(self) -> None:
        """Let go of the command's end of the pipe: the command has it."""
        with suppress(OSError):
            os.close(self.source)

    def close(self) -> None:
        """End the input: the command reads its end, or is gone."""
        self._closing.set()
        with suppress(OSError):
            os.close(self._sink)

    def _loop(self) -> None:
        try:
            while not self._closing.is_set():
                self._give(self._asked.get())
        except (JobwireError, OSError) as error:
            if not self._closing.is_set():
                self._complain(f"the command gets no more answers: {error}")

    def _give(self, request_id: str) -> None:
        heard = None
        while heard is None and not self._closing.is_set():
            heard = self._answers.wait(request_id, _LOOK_SECONDS)
        if heard is None or heard.answer is None or self._closing.is_set():
            return
        # First: the command may end with the answer, and nothing follows its last word.
        if self._keep is not None:
            self._keep("progress", f"answered by {heard.answer.by}", {RESOLVED: [request_id]})
        rest = memoryview(f"{heard.answer.text}\n".encode())
        while rest:
            rest = rest[os.write(self._sink, rest) :]
