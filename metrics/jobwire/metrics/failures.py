"""From what Spark reports to our errors: its exceptions carry a remote process's text only."""

import re

from jobwire.core.errors import ConfigError, JobwireError, StorageError
from jobwire.journal.errors import JournalCorrupt, JournalNotFound, JournalRecreated, JournalTruncated
from jobwire.metrics.errors import FULL_HINT, DataLossError, QueryError, SinkError

# What a task tells by its class; of these trying again heals a database or a store only. The last line of a
# Python traceback is "module.Class: text".
_KNOWN: dict[str, type[JobwireError]] = {
    "JournalTruncated": JournalTruncated,
    "JournalRecreated": JournalRecreated,
    "JournalCorrupt": JournalCorrupt,
    "JournalNotFound": JournalNotFound,
    "ConfigError": ConfigError,
    "DataLossError": DataLossError,
    "SinkError": SinkError,
    "StorageError": StorageError,
}
_LINE = re.compile(r"^(?:[\w.]+\.)?(\w+): (.+)$", re.MULTILINE)
_LONGEST = 300


def failure_of(error: BaseException) -> JobwireError:
    """Return the error that ended a query; `QueryError` with `retry` True where it may pass."""
    if isinstance(error, JobwireError):
        return error
    text = str(error)
    for name, message in _LINE.findall(text):
        if name in _KNOWN:
            cause, _, hint = message.partition(" (")
            hint = hint.removesuffix(")")
            facts = {"cause": name, "disk_full": hint == FULL_HINT, "retry": name == "StorageError"}
            return _KNOWN[name](cause, hint=hint, **facts)
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return QueryError(
        f"the query failed: {first[:_LONGEST]}",
        hint="details stand in the log (`jobwire metrics status` names it)",
        cause=type(error).__name__,
        retry=True,
    )


def may_pass(error: JobwireError) -> bool:
    """Tell whether the same query may succeed later without anybody's help but free disk space."""
    return bool(error.facts.get("retry") or error.facts.get("disk_full")) or isinstance(error, SinkError)
