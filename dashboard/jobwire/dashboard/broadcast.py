"""One stream of changes for any number of open pages: each change is encoded once, whoever reads it.

Server-sent events (WHATWG HTML, section 9.2). The id of each is `<start>.<revision>.<offset>`: a page
that comes back says the last one it has, and gets exactly what came after it; where this server was
started since, or was asked too late, it gets the whole fleet anew. Rows carry the full state of a job,
so nothing can be counted twice. `offset` is where the journal stood (-1: no journal on this host).
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

from jobwire.dashboard.fleet import Row, tally
from jobwire.dashboard.foreign import whole_number
from jobwire.dashboard.model import Changes

# A page that was away for longer, or missed more, is cheaper served with everything.
_KEPT_MESSAGES = 1200
_KEPT_BYTES = 8 << 20


class FollowerStatus(NamedTuple):
    """What the follower reports with each look: the time here, the journal's end, and what failed."""

    now: float
    offset: int
    trouble: str = ""


class Broadcaster:
    """The fleet as last reported, and the messages that lead there. Used inside one event loop."""

    def __init__(self, *, start_id: str) -> None:
        self.rows: dict[str, Row] = {}
        self.moment = FollowerStatus(0.0, -1)
        self.ready = False
        #: The server stops.
        self.closed = False
        self._start_id = start_id
        self._revision = 0
        self._lines: dict[str, str] = {}
        self._kept: deque[tuple[int, bytes]] = deque()
        self._kept_bytes = 0
        self._changed = asyncio.Event()
        self._snapshot: tuple[int, bytes] | None = None

    def begin(self, rows: Mapping[str, Row], moment: FollowerStatus) -> None:
        """Replace everything, for the first time or after trouble: every page gets the fleet anew."""
        self.rows = dict(rows)
        self._lines = {job_id: _line(row) for job_id, row in rows.items()}
        self._kept.clear()
        self._kept_bytes = 0
        self.moment, self.ready = moment, True
        self._revision += 1
        self._wake()

    def publish(self, changes: Changes, moment: FollowerStatus) -> None:
        """Send changes to every page; with nothing changed it is a sign of life."""
        self.moment = moment
        for row in changes.rows:
            self.rows[row.id] = row
            self._lines[row.id] = _line(row)
        for job_id in changes.gone:
            self.rows.pop(job_id, None)
            self._lines.pop(job_id, None)
        self._revision += 1
        rows = ",".join(self._lines[row.id] for row in changes.rows)
        message = self._message("update", f'"rows":[{rows}],"gone":{json.dumps(changes.gone)}')
        self._kept.append((self._revision, message))
        self._kept_bytes += len(message)
        while len(self._kept) > _KEPT_MESSAGES or (self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1):
            self._kept_bytes -= len(self._kept.popleft()[1])
        self._wake()

    def close(self) -> None:
        """End every stream, so that the server can stop at once."""
        self.closed = True
        self._wake()

    async def changed(self, timeout_seconds: float) -> None:
        """Return at the next change or after `timeout_seconds`."""
        try:
            await asyncio.wait_for(self._changed.wait(), timeout_seconds)
        except TimeoutError:
            return

    async def stream(self, last_id: str) -> AsyncIterator[bytes]:
        """Yield encoded messages for one page that has seen everything up to `last_id` ("": nothing)."""
        position = self._known(last_id)
        while not self.closed:
            waiting = self._changed
            if position is None or not self._reaches(position):
                if self.ready:
                    # Noted before the yield: more may be published while this page takes its time.
                    position = self._revision
                    yield self._whole()
                    continue
            elif position < self._revision:
                parts = [message for revision, message in self._kept if revision > position]
                position = self._revision
                yield b"".join(parts)
                continue
            await waiting.wait()

    def _known(self, last_id: str) -> int | None:
        start, _, rest = last_id.partition(".")
        revision = whole_number(rest.partition(".")[0])
        return revision if start == self._start_id else None

    def _reaches(self, position: int) -> bool:
        """Tell whether the kept messages lead from `position` to the present."""
        first = self._kept[0][0] if self._kept else self._revision + 1
        return first - 1 <= position <= self._revision

    def _whole(self) -> bytes:
        if self._snapshot is None or self._snapshot[0] != self._revision:
            rows = ",".join(self._lines.values())
            self._snapshot = (self._revision, self._message("fleet", f'"rows":[{rows}]'))
        return self._snapshot[1]

    def _message(self, kind: str, body: str) -> bytes:
        now, offset, trouble = self.moment
        head = f'"now":{now:.3f},"offset":{offset},"trouble":{json.dumps(trouble)}'
        counts = json.dumps(tally(self.rows.values()), separators=(",", ":"))
        event_id = f"{self._start_id}.{self._revision}.{offset}"
        return f'id: {event_id}\nevent: {kind}\ndata: {{{head},"counts":{counts},{body}}}\n\n'.encode()

    def _wake(self) -> None:
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()


def _line(row: Row) -> str:
    # json escapes every control character, so no text can end an SSE line; times need no more than ms.
    body = {
        name: round(value, 3) if isinstance(value, float) else value for name, value in row._asdict().items()
    }
    return json.dumps(body, separators=(",", ":"))
