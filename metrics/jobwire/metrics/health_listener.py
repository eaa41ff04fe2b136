"""Where Spark tells of each batch: apart from `health`, which needs no Spark."""

import json
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from jobwire.core.errors import JobwireError
from jobwire.core.override import override
from jobwire.metrics.health import BatchHealth, read_progress


class HealthListener(StreamingQueryListener):
    """Hands each progress report with rows in it to `on_health`."""

    def __init__(self, on_health: Callable[[BatchHealth], None], on_trouble: Callable[[str], None]) -> None:
        self._on_health = on_health
        self._on_trouble = on_trouble

    @override
    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    @override
    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Read the report. An exception here would only be lost in Spark's log."""
        try:
            self._on_health(read_progress(json.loads(event.progress.json)))
        except (JobwireError, ValueError, KeyError) as error:
            self._on_trouble(f"health of a batch not stored: {error}")

    @override
    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    @override
    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""
