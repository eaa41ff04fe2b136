"""The fleet as text, once: for pipes, scripts and small terminals."""

import json
import time
from collections.abc import Iterable

from jobwire.core.terminal_text import one_line
from jobwire.dashboard.fleet import Query, Row, arrange, words
from jobwire.dashboard.model import FleetModel
from jobwire.dashboard.status import STATE_WIDTH, state_word

_BETWEEN = " · "
SESSION_WIDTH = 10
HEADINGS = ("job", "state", "session", "prog", "idle", "age", "what")


def require_all(model: FleetModel) -> None:
    """Raise StorageError if the fleet is not everything: what is left out would make a false all-clear."""
    if model.source.unread:
        raise model.source.store.unread_error(model.source.unread)


def render(model: FleetModel, query: Query, *, as_json: bool) -> str:
    """Read the fleet and return it as lines."""
    model.start()
    rows = arrange(model.rows.values(), query)
    model.close()
    if as_json:
        return "".join(json.dumps(row._asdict()) + "\n" for row in rows)
    return table(rows, time.time())


def cells(row: Row, at: float, room: int = 200) -> tuple[str, ...]:
    """Return a row's texts in the order of HEADINGS, safe on a terminal; `room` characters for the last."""
    progress = "" if row.percent is None else f"{row.percent:.0f}%"
    idle = words(at - (row.last or row.started or row.created)) if row.finished is None else _ago(row, at)
    return (
        row.id,
        state_word(row.group, row.status),
        one_line(row.session, SESSION_WIDTH),
        progress,
        idle,
        words(at - row.created),
        what(row, room),
    )


def what(row: Row, room: int) -> str:
    """Return title and last word in `room` characters: where it is narrow, some of both."""
    said = one_line(row.why or row.detail, room)
    if not said or not row.title:
        return one_line(row.title, room) or said
    title = one_line(row.title, max(room - len(_BETWEEN) - len(said), room * 2 // 5))
    return f"{title}{_BETWEEN}{one_line(said, room - len(title) - len(_BETWEEN))}"


def _ago(row: Row, at: float) -> str:
    """Return how long ago a job ended, in one unit: it fits the column of the idle time."""
    return f"{words(at - (row.finished or at)).split()[0]} ago"


def table(rows: Iterable[Row], at: float) -> str:
    """Return the fleet as aligned text."""
    lines = [HEADINGS, *(cells(row, at) for row in rows)]
    return "".join(
        f"{job:<8}  {state:<{STATE_WIDTH}} {session:<{SESSION_WIDTH}} "
        f"{progress:>4} {idle:>8} {age:>8}  {what}".rstrip()
        + "\n"
        for job, state, session, progress, idle, age, what in lines
    )
