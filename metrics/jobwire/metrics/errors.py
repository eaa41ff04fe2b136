"""What can go wrong here besides the journal's and the disk's own errors.

ConfigError                  30
├── JavaMissingError            no usable Java: Spark cannot start
└── FolderError                 the folder of the metrics cannot be used
StorageError                 50
├── SinkError                   the tables cannot be read or written; facts: disk_full
├── DataLossError               the journal does not hold what the tables need next
└── QueryError                  the query failed; facts: cause, retry
"""

from jobwire.core.errors import ConfigError, StorageError

FULL_HINT = (
    "free disk space, then start again: nothing is lost, the next run continues where this one stopped"
)


class JavaMissingError(ConfigError):
    """No Java, or one that is too old."""


class FolderError(ConfigError):
    """The folder of the metrics is not writable."""


class SinkError(StorageError):
    """The database of the metric tables failed. `facts["disk_full"]` tells whether space is the reason."""


class DataLossError(StorageError):
    """Rows that the tables need next are gone from the journal. Facts: wanted, first_offset."""


class QueryError(StorageError):
    """The streaming query failed. Facts: cause (a class name), retry (whether trying again can help)."""
