"""Jobs that the metrics miss, because the journal has nothing of what they said."""

from itertools import islice
from pathlib import Path

from jobwire.jobs.record import RecordFormatError, decode_record
from jobwire.metrics.database import Database
from jobwire.metrics.statements import queries
from jobwire.storage.home_paths import HomePaths

# Records read for one answer: some 60 µs each.
_MOST_READ = 10_000


def counted_jobs(database: Database) -> set[str]:
    """Return the jobs that the tables know."""
    return {job_id for (job_id,) in database.rows(queries()["counted_jobs"])}


def unjournaled_jobs(home: Path, counted: set[str]) -> int:
    """Return how many jobs of the registry below `home` spoke and have no event in the journal.

    At most 10,000 records are read, so with more unknown jobs than that it is a lower bound. 0 where the
    registry is on another host.
    """
    # Temporary files of the durable write begin with a dot.
    records = (
        path for path in Path(HomePaths(home).jobs_path()).glob("[!.]*.json") if path.stem not in counted
    )
    return sum(_unjournaled(path) for path in islice(records, _MOST_READ))


def missing_sentence(count: int) -> str:
    """Return what to tell a person who looks at figures without these jobs."""
    jobs = "1 job of this registry is" if count == 1 else f"{count:,} jobs of this registry are"
    return (
        f"{jobs} missing in the metrics: the journal has no event of theirs,"
        " because `jobwire serve` did not run then"
    )


def _unjournaled(path: Path) -> bool:
    try:
        record = decode_record(path.read_bytes())
    except (OSError, RecordFormatError):
        return False
    return record.last_seq > 0 and record.confirmed_seq == 0
