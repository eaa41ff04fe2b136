"""Jobs that the metrics miss, because the journal has nothing of what they said."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from jobwire.jobs.record import RecordFormatError, decode_record
from jobwire.metrics.database import Row, chunks
from jobwire.metrics.statements import queries
from jobwire.storage.home_paths import HomePaths

# Records read for one answer: some 60 µs each.
_MOST_READ = 10_000


def unjournaled_jobs(home: Path, rows: Callable[[str, Sequence[str]], list[Row]]) -> int:
    """Return how many jobs of the registry below `home` spoke and have no event in the journal.

    `rows` asks the tables, by the ids of the registry's jobs: they may hold many more. At most 10,000
    records are read, so with more unknown jobs than that it is a lower bound. 0 where the registry is on
    another host.
    """
    # Temporary files of the durable write begin with a dot.
    ids = [path.stem for path in Path(HomePaths(home).jobs_path()).glob("[!.]*.json")]
    return sum(_unjournaled(HomePaths(home), job_id) for job_id in islice(_unknown(ids, rows), _MOST_READ))


def _unknown(ids: Sequence[str], rows: Callable[[str, Sequence[str]], list[Row]]) -> Iterator[str]:
    for some in chunks(ids):
        found = rows(queries()["counted_jobs_of"].replace("...", ", ".join("?" * len(some))), some)
        counted = {job_id for (job_id,) in found}
        yield from (job_id for job_id in some if job_id not in counted)


def missing_sentence(count: int) -> str:
    """Return what to tell a person who looks at figures without these jobs."""
    jobs = "1 job of this registry is" if count == 1 else f"{count:,} jobs of this registry are"
    return (
        f"{jobs} missing in the metrics: the journal has no event of theirs,"
        " because `jobwire serve` did not run then"
    )


def _unjournaled(paths: HomePaths, job_id: str) -> bool:
    try:
        record = decode_record((Path(paths.jobs_path()) / f"{job_id}.json").read_bytes())
    except (OSError, RecordFormatError):
        return False
    return record.last_seq > 0 and record.confirmed_seq == 0
