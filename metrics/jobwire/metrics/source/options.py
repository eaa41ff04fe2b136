"""The options of `format("mqtt")`, read from the strings that Spark hands over."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from jobwire.core.errors import ConfigError, JobwireError
from jobwire.core.topics import DEFAULT_ROOT, check_identity

# A batch of this many rows keeps Spark's fixed cost of a batch below a tenth of the work.
MAX_ROWS = 100_000
MAX_BYTES = 64 << 20
# One task reads at most this much: some 60,000 events, about 0.2 s. Smaller ones pay a task's fixed
# cost (10 ms in the JVM and as much in the Python worker) too often.
PARTITION_BYTES = 16 << 20
# Bytes that travel inside a task, not on a shared disk; spark.rpc.message.maxSize allows 128 MiB.
INLINE_PARTITION_BYTES = 2 << 20
PARSE_NONE, PARSE_EVENT = "none", "event"
EARLIEST = "earliest"
LATEST = "latest"
_T = TypeVar("_T")


class SourceOptions(NamedTuple):
    """What the reader was asked for. Picklable; names no secret."""

    journal: Path
    topics: tuple[str, ...] = ()
    topic_root: str = DEFAULT_ROOT
    parse: str = PARSE_NONE
    columns: tuple[str, ...] = ()
    verify: bool = False
    embedded: bool = False
    home: Path | None = None
    inline: bool = False
    consumer: str = ""
    fail_on_data_loss: bool = True
    max_rows: int = MAX_ROWS
    max_bytes: int = MAX_BYTES
    partition_bytes: int = PARTITION_BYTES
    shards: int = 0
    history: str = ""
    broker: tuple[tuple[str, str], ...] = ()
    share_group: str = ""
    starting_offset: str = EARLIEST
    ending_offset: str = LATEST
    starting_time: str = ""
    ending_time: str = ""
    # No option: the rows are for the fold, which counts what damage took (folding.py).
    folds: bool = False

    @property
    def skips_damage(self) -> bool:
        """Tell whether an entry that damage took is given as a row that says so, or ends the query."""
        return self.folds or not self.fail_on_data_loss

    def chosen(self, present: Iterable[str]) -> tuple[str, ...]:
        """Return the columns to give: all that are `present`, or those that option `columns` names.

        Raises ConfigError for a name that is not present.
        """
        names = tuple(present)
        if wrong := [name for name in self.columns if name not in names]:
            raise ConfigError(
                f"option columns of the source mqtt: no column {', '.join(wrong)} with parse={self.parse}",
                hint=f"columns: {', '.join(names)}",
            )
        return self.columns or names


def read_options(given: Mapping[str, str]) -> SourceOptions:
    """Return the options of one `load()`; names are case-insensitive, as everywhere in Spark.

    Raises ConfigError naming the option that is missing, unknown or unusable.
    """
    words = {name.lower(): value for name, value in given.items()}
    unknown = words.keys() - {name.lower() for name in (*_OPTIONS, *_BROKER)} - _SPARKS_OWN
    if unknown:
        raise ConfigError(
            f"the source mqtt has no option {', '.join(sorted(unknown))}",
            hint=f"options: {', '.join(sorted((*_OPTIONS, *_BROKER)))}",
        )
    values = {
        field: _read(name, reader, words[name.lower()])
        for name, (field, reader) in _OPTIONS.items()
        if words.get(name.lower(), "") != ""
    }
    values["broker"] = tuple(
        (key, words[name.lower()]) for name, key in _BROKER.items() if words.get(name.lower())
    )
    if "journal" not in values:
        raise ConfigError(
            "the source mqtt needs the option journal: the directory of a journal",
            hint='.option("journal", ".hermes/journal")',
        )
    if values.get("inline") and "partition_bytes" not in values:
        values["partition_bytes"] = INLINE_PARTITION_BYTES
    return SourceOptions(**values)


def _read(name: str, reader: Callable[[str], _T], text: str) -> _T:
    try:
        return reader(text)
    except (ValueError, JobwireError) as error:
        raise ConfigError(f"option {name} of the source mqtt: {error}") from error


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"one of {', '.join(words)} is wanted")
        return text.lower()

    return read


def _is(yes: str, no: str) -> Callable[[str], bool]:
    read = _one_of(yes, no)
    return lambda text: read(text) == yes


_switch = _is("true", "false")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("a positive number is wanted")
    return number


def _offset(text: str) -> str:
    word = text.lower()
    if word not in {EARLIEST, LATEST} and not word.isdecimal():
        raise ValueError(f"{EARLIEST}, {LATEST} or an offset is wanted")
    return word


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "journal": ("journal", lambda text: Path(text).absolute()),
    "topics": ("topics", _list),
    "topicRoot": ("topic_root", str),
    "parse": ("parse", _one_of(PARSE_NONE, PARSE_EVENT)),
    "columns": ("columns", _list),
    "verify": ("verify", _switch),
    "ingest": ("embedded", _is("embedded", "none")),
    "shareGroup": ("share_group", check_identity),
    "home": ("home", lambda text: Path(text).absolute()),
    "inline": ("inline", _switch),
    "consumer": ("consumer", check_identity),
    "failOnDataLoss": ("fail_on_data_loss", _switch),
    "maxRowsPerBatch": ("max_rows", _positive),
    "maxBytesPerBatch": ("max_bytes", _positive),
    "partitionBytes": ("partition_bytes", _positive),
    "shards": ("shards", _positive),
    "history": ("history", str),
    "startingOffset": ("starting_offset", _offset),
    "endingOffset": ("ending_offset", _offset),
    "startingTime": ("starting_time", str),
    "endingTime": ("ending_time", str),
}
# Where the embedded recorder connects; a password comes from a file or the environment only.
_BROKER = {
    "broker": "broker",
    "port": "port",
    "tls": "tls",
    "caCerts": "ca_certs",
    "certFile": "certfile",
    "keyFile": "keyfile",
    "username": "username",
    "passwordFile": "password_file",
    "protocol": "protocol",
}
# `load(path)` and Spark's own bookkeeping may add these.
_SPARKS_OWN = frozenset({"path"})
