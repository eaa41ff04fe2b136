"""`jobwire status`: the fleet in one line, or in a few. The line's imports stay light."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.clock import utc_timestamp
from jobwire.dashboard.index_reader import current_index, read_flags
from jobwire.storage.home_paths import HomePaths

if TYPE_CHECKING:
    from jobwire.dashboard.fleet import Row
    from jobwire.dashboard.index_reader import IndexView

_DAY_SECONDS = 86_400.0
_SHOWN = 10
_RECORD = re.compile(r"[0-9a-f]{8}\.json").fullmatch
_WAITS_FOR_YOU = "waits for you"
# As wide as the longest word of `state_word`.
STATE_WIDTH = len(_WAITS_FOR_YOU)


def state_word(group: str, status: str) -> str:
    """Return what people read for one job (docs/glossary.md): one that is done says how it ended."""
    if group == "waiting":
        return _WAITS_FOR_YOU
    return status if group == "done" else group


def counted(count: int, group: str) -> str:
    """Return how many jobs of a group there are: 1 waits for you, 2 wait for you, 3 running."""
    words = "wait for you" if group == "waiting" and count != 1 else state_word(group, group)
    return f"{count} {words}"


class Line(NamedTuple):
    """The figures of a status bar: jobs, and the sessions in which agents live."""

    running: int
    waiting: int
    failed: int
    sessions: int = 0


def line_of(home: str, *, failed_seconds: float = _DAY_SECONDS) -> Line:
    """Return the figures; a failure counts for `failed_seconds`, or until it is dismissed."""
    since = utc_timestamp(time.time() - failed_seconds)
    return _line(home, current_index(home, failed_since=since, warn=_warn), since)


def _line(home: str, index: IndexView | None, since: str) -> Line:
    # Without an index, which cannot be made on a read-only disk for instance, every record is read.
    unread = _all_jobs(home) if index is None else index.running | index.touched.keys()
    known = 0 if index is None else len(index.failed - index.touched.keys())
    flags_of = {job_id: read_flags(home, job_id) for job_id in unread}
    found = [flags for flags in flags_of.values() if flags is not None]
    running = [flags for flags in found if flags.status == "running"]
    waiting = sum(flags.attention for flags in running)
    failed = known + sum(flags.failed_since(since) for flags in found)
    # Of a damaged record the index has the last word: left out, the job would make a false all-clear.
    damaged = 0
    if index is not None:
        damaged = sum(flags_of[job_id] is None for job_id in index.running - index.touched.keys())
    return Line(len(running) - waiting + damaged, waiting, failed, running_sessions(home))


def _all_jobs(home: str) -> list[str]:
    jobs = HomePaths(home).jobs_path()
    names = os.listdir(jobs) if os.path.isdir(jobs) else []  # noqa: PTH112, PTH208 - as in index_reader
    return [name.removesuffix(".json") for name in names if _RECORD(name)]


def running_sessions(home: str) -> int:
    """Return how many sessions run; none where there is no store, or it cannot be read now."""
    if not os.path.exists(os.path.join(home, "coordination.db")):  # noqa: PTH110, PTH118 - as in index_reader
        return 0
    from pathlib import Path  # noqa: PLC0415 - only where there may be one

    from jobwire.coordination.sessions.inventory import Inventory  # noqa: PLC0415 - as above
    from jobwire.core.errors import JobwireError  # noqa: PLC0415 - as above
    from jobwire.dashboard.coordination.looking import looking  # noqa: PLC0415 - as above

    try:
        with looking(Path(home)) as store:
            return 0 if store is None else Inventory(store).counts().get("running", 0)
    except JobwireError:
        return 0  # the jobs' figures are what a status bar is for


def render_line(line: Line) -> str:
    """Return the line for a status bar: what needs nobody comes first, what is zero is left out."""
    parts = [f"{line.running} running"]
    if line.waiting:
        parts.append(counted(line.waiting, "waiting"))
    if line.failed:
        parts.append(f"{line.failed} failed")
    if line.sessions:
        parts.append(f"{line.sessions} session{'' if line.sessions == 1 else 's'}")
    return ", ".join(parts)


def render_json(line: Line) -> str:
    """Return the figures as one JSON object."""
    return json.dumps(line._asdict())


def render_table(rows: list[Row], now: float) -> str:
    """Return what needs a person, one line a job, and how many jobs there are besides."""
    from jobwire.core.terminal_text import one_line  # noqa: PLC0415 - as above
    from jobwire.dashboard.fleet import PROBLEMS, tally, words  # noqa: PLC0415 - not for --line

    counts = tally(rows)
    shown = [row for row in rows if row.group in PROBLEMS][:_SHOWN]
    lines = [
        f"{row.id}  {state_word(row.group, row.status):<{STATE_WIDTH}} "
        f"{words(now - (row.last or row.created)):>8}  "
        f"{one_line(row.session, 14):<14} {one_line(row.title or row.detail, 40)}".rstrip()
        for row in shown
    ]
    summary = ", ".join(counted(count, group) for group, count in counts.items() if count) or "no jobs"
    return "\n".join([summary, *lines])


def _warn(text: str) -> None:
    print(f"jobwire status: {text}", file=sys.stderr)  # noqa: T201 - a warning of a command
