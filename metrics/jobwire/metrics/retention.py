"""How long the tables keep what they hold: a function of the rows, so a replay forgets the same.

A task trims its shard in the transaction that takes its watermark over the hour. What is forgotten was
counted: wider windows keep the sums of narrower ones.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jobwire.metrics.database import Database

_HOUR_US = 3_600_000_000
_DAY_SECONDS = 86_400
_COUNTS = ("window_counts", "rejection_counts", "fact_counts")
# A job that ended, by its worker's word or a decision. Its events would count again if they came again.
_JOBS = (
    "DELETE FROM job_totals WHERE finished_us < ?",
    "DELETE FROM job_facts WHERE COALESCE(ended_us, purged_us) < ?",
)
# One for each beginning of the table's key: otherwise all windows of a width would be read.
_HISTOGRAMS = (
    "DELETE FROM histograms WHERE width_seconds = ? "
    "AND measure IN ('delay', 'ahead', 'duration', 'waiting', 'begun', 'queued', 'pickup') "
    "AND dimension IN ('', 'session', 'worker', 'label', 'attempt')"
)


class Keep(NamedTuple):
    """Days; 0 keeps for ever."""

    keep_10s_days: float = 0
    keep_60s_days: float = 0
    keep_hours_days: float = 0
    keep_jobs_days: float = 0

    def is_due(self, before_us: int, watermark_us: int) -> bool:
        """Tell whether the watermark came into another hour."""
        return any(self) and before_us // _HOUR_US != watermark_us // _HOUR_US

    def trim(self, database: "Database", shard: int, shards: int, watermark_us: int) -> None:
        """Forget what of a shard's is older than the settings say. Raises SinkError.

        Of shards that were more there are rows of higher numbers: the remainder tells whose they are now.
        """
        if database.one_shard:
            shard, shards = 0, 1
        now = watermark_us // _HOUR_US * 3600
        for width, days in ((10, self.keep_10s_days), (60, self.keep_60s_days), (3600, self.keep_hours_days)):
            if not days:
                continue
            old = "window_start < ? AND shard - shard / ? * ? = ?"
            values = (int(now - days * _DAY_SECONDS), shards, shards, shard)
            database.execute(f"{_HISTOGRAMS} AND {old}", (width, *values))
            for table in _COUNTS:
                database.execute(f"DELETE FROM {table} WHERE width_seconds = ? AND {old}", (width, *values))  # noqa: S608 - names of ours
            if width == 3600:  # noqa: PLR2004 - what was used is kept by the hour
                database.execute(f"DELETE FROM usage_counts WHERE {old}", values)  # noqa: S608 - as above
        if self.keep_jobs_days and shard == 0:
            for statement in _JOBS:
                database.execute(statement, (int((now - self.keep_jobs_days * _DAY_SECONDS) * 1_000_000),))


KEEP_ALL = Keep()
