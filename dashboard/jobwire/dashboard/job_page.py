"""One job as its page begins: record, row, files and commands."""

import shlex
from pathlib import Path

from jobwire.core.errors import NotFoundError
from jobwire.dashboard.fleet import Row, is_failure, judge, row_of
from jobwire.dashboard.model import FleetModel
from jobwire.dashboard.timeline import shown_record
from jobwire.jobs.record import JobRecord

_OUTPUT = "output.log"


def job_page(model: FleetModel, job_id: str, known: Row | None) -> dict[str, object]:
    """Return everything the job view begins with, but for its history; `known` is its row in the fleet.

    Raises NotFoundError; StorageError where the record cannot be read.
    """
    store = model.source.store
    record = store.get(job_id)
    log = Path(store.log_dir(job_id)).absolute()
    output = log / _OUTPUT
    return {
        "record": shown_record(record),
        "row": (known or _row(model, job_id))._asdict(),
        "paths": {
            "history": str(log / "events.ndjson"),
            "output": str(output) if output.exists() else "",
        },
        "commands": _commands(record, Path(store.home), output),
    }


def _row(model: FleetModel, job_id: str) -> Row:
    """Return the row of a job that left the fleet."""
    facts = model.source.read(job_id, None)
    if facts is None:
        raise NotFoundError(f"no job {job_id}", job_id=job_id)
    return row_of(facts, judge(facts, model.source.store.clock.now(), model.limits), model.limits)


def _commands(record: JobRecord, home: Path, output: Path) -> list[dict[str, str]]:
    job_id = record.job_id
    option = f" --home {shlex.quote(str(home.absolute()))}"
    commands = [
        ("watch it", f"job_subscriber --job {job_id}{option}"),
        ("its record", f"jobwire registry show {job_id}{option}"),
    ]
    if output.exists():
        commands.append(("its output", f"tail -f {shlex.quote(str(output))}"))
    if is_failure(record):
        commands.append(("take it out of the failures", f"jobwire dismiss {job_id}{option}"))
    if not record.terminal:
        commands.append(("cancel it", f"jobwire registry cancel {job_id}{option}"))
    return [{"what": what, "command": command} for what, command in commands]
