"""Starting the recorder from a query (`option("ingest", "embedded")`)."""

from jobwire.core.clock import Clock
from jobwire.metrics.source.options import SourceOptions


class Ingest:
    """The recorder process of one journal."""

    def __init__(self, options: SourceOptions, *, clock: Clock) -> None:
        self._options = options
        self._clock = clock

    def start(self) -> None:
        """Start the recorder unless one runs."""
        raise NotImplementedError

    def close(self) -> None:
        """End it."""
