"""Where the query stands, read from what it leaves behind: no Spark, no waiting."""

import contextlib
from pathlib import Path
from typing import Any

from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import JobwireError, NotFoundError
from jobwire.journal.consumers import Consumers
from jobwire.journal.reader import JournalReader
from jobwire.metrics.database import Database, open_tables, public_url
from jobwire.metrics.settings import MetricsSettings
from jobwire.metrics.statements import queries
from jobwire.metrics.unjournaled import missing_sentence, unjournaled_jobs
from jobwire.storage.file_lock import holder_pid, is_held

_MICROSECONDS = 1_000_000


def status(settings: MetricsSettings) -> dict[str, Any]:
    """Return what is known: the process, each journal's backlog, the last batches, the tables.

    Raises nothing for what is simply not there yet: it is None.
    """
    running = is_held(settings.lock)
    found: dict[str, Any] = {
        "running": running,
        "pid": holder_pid(settings.lock) if running else None,
        "tables": public_url(settings.sink),
        "journals": [],
        "last_batch": None,
        "recent": None,
        "watermark_at": None,
        "log": str(settings.log_file),
    }
    progress: dict[str, tuple[int, int, int]] = {}
    database = _tables(settings.sink)
    if database is not None:
        with contextlib.closing(database):
            progress = {row[0]: (row[1], row[2], row[3]) for row in database.rows(queries()["all_progress"])}
            found |= _batches(database)
            found["unjournaled_jobs"] = unjournaled_jobs(settings.home, database.rows)
    else:
        found["unjournaled_jobs"] = unjournaled_jobs(settings.home, lambda *_: [])
    found["journals"] = [_journal(settings, directory, progress) for directory in settings.journals]
    if progress:
        found["watermark_at"] = min(place[2] for place in progress.values()) / _MICROSECONDS or None
    return found


def render(found: dict[str, Any]) -> str:
    """Return the status as lines for a person."""
    lines = [f"running, pid {found['pid']}" if found["running"] else "not running"]
    for journal in found["journals"]:
        if "error" in journal:
            lines.append(f"journal {journal['directory']}: {journal['error']}")
        else:
            counted, durable = journal["counted"], journal["durable_offset"]
            lines.append(f"journal {journal['directory']}: {counted:,} of {durable:,} rows counted")
            lines[-1] += f", backlog {journal['backlog']:,}"
    last, recent = found["last_batch"], found["recent"]
    if last is not None:
        at = utc_timestamp(last["updated_at"])[:19]
        lines.append(
            f"last batch {last['batch_id']} at {at}Z: {last['rows']:,} rows in {last['duration_ms']} ms"
        )
        lines.append(
            f"last {recent['batches']} batches: median {recent['median_ms']} ms, {recent['rows']:,} rows"
        )
    if found["watermark_at"] is not None:
        lines.append(f"watermark {utc_timestamp(found['watermark_at'])[:19]}Z")
    if found["unjournaled_jobs"]:
        lines.append(missing_sentence(found["unjournaled_jobs"]))
    lines += [f"tables {found['tables']}", f"log {found['log']}"]
    return "\n".join(lines)


def _tables(sink: str) -> Database | None:
    try:
        return open_tables(sink)
    except NotFoundError:
        return None


def _batches(database: Database) -> dict[str, Any]:
    rows = database.rows(queries()["recent_batches"])
    if not rows:
        return {}
    names = ("batch_id", "rows", "duration_ms", "backlog", "updated_at")
    durations = sorted(row[2] for row in rows)
    return {
        "last_batch": dict(zip(names, rows[0], strict=True)),
        "recent": {
            "batches": len(rows),
            "median_ms": durations[len(durations) // 2],
            "rows": sum(row[1] for row in rows),
        },
    }


def _journal(
    settings: MetricsSettings, directory: Path, progress: dict[str, tuple[int, int, int]]
) -> dict[str, Any]:
    try:
        with JournalReader(directory) as reader:
            first, end, identity = reader.first_offset, reader.durable_offset, reader.identity
        consumers = {known.name: known.offset for known in Consumers(directory).all()}
    except JobwireError as error:
        return {"directory": str(directory), "error": error.message}
    begun, counted, _ = progress.get(identity, (first, first, 0))
    return {
        "directory": str(directory),
        "identity": identity,
        "first_offset": first,
        "durable_offset": end,
        "counted": counted - begun,
        "next_offset": counted,
        "backlog": max(0, end - max(counted, first)),
        "committed": consumers.get(settings.consumer),
    }
