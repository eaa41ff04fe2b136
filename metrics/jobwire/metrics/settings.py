"""What a run of the metrics needs to know, from the command line, `[metrics]` in jobwire.toml, defaults."""

import json
import os
from argparse import Namespace
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import SplitResult, urlsplit

from jobwire.core.clock import Clock
from jobwire.core.errors import ConfigError
from jobwire.core.topics import DEFAULT_ROOT
from jobwire.metrics.retention import Keep
from jobwire.storage.file_lock import sole
from jobwire.storage.home_paths import HomePaths
from jobwire.storage.settings_file import read_own_settings, read_settings

# A postgresql:// URL may hold a password, which must not stand in argv.
SINK_VARIABLE = "JOBWIRE_METRICS_SINK"
LOCK_NAME = "driver.lock"
# With a batch of 100 ms a row is in the tables half a second after its message; the rest is left to others.
TRIGGER_SECONDS = 0.4
HISTORY_SECONDS = 3600.0
# SQLite attaches ten.
MAX_FILES = 8


class MetricsSettings(NamedTuple):
    """One run. Paths are absolute; `sink` is a file or a postgresql:// URL, `history` a folder or a URI."""

    home: Path
    journals: tuple[Path, ...]
    sink: str
    history: str | None
    topic_root: str = DEFAULT_ROOT
    master: str = "local[2]"
    memory: str = "1g"
    trigger_seconds: float = TRIGGER_SECONDS
    history_seconds: float = HISTORY_SECONDS
    shards: int = 1
    max_rows: int = 100_000
    max_mib: int = 64
    keep_10s_days: float = 7
    keep_60s_days: float = 90
    keep_hours_days: float = 0
    keep_jobs_days: float = 0
    verify: bool = False
    inline: bool = False
    ingest: bool = False
    share_group: str = ""
    allow_data_loss: bool = False
    consumer: str = "metrics"

    @property
    def keep(self) -> Keep:
        """Return how long the tables keep what they hold."""
        return Keep(*(getattr(self, name) for name in Keep._fields))

    @property
    def folder(self) -> Path:
        """Return where everything of this component lives."""
        return HomePaths(self.home).metrics

    def sole_driver(self, *, clock: Clock, deadline_seconds: float) -> AbstractContextManager[None]:
        """Be the only driver of the home for the block; the folder exists. Raises AlreadyRunningError."""
        what = f"computes the metrics of {self.home}"
        return sole(self.lock, clock=clock, deadline_seconds=deadline_seconds, what=what)

    @property
    def lock(self) -> Path:
        """Return the file whose lock the driver holds as long as it runs."""
        return self.folder / LOCK_NAME

    @property
    def checkpoint(self) -> Path:
        """Return where Spark notes its batches; of no worth after the run."""
        return self.folder / "checkpoint"

    @property
    def log_file(self) -> Path:
        """Return where Spark's log goes."""
        return self.folder / "log" / "spark.log"

    @property
    def driver_log(self) -> Path:
        """Return where the output of the driver and of Python workers goes."""
        return self.folder / "log" / "driver.log"

    def to_json(self) -> str:
        """Return the settings for the driver process, without the sink: that goes by SINK_VARIABLE."""
        return json.dumps(self._replace(sink="")._asdict(), default=str)

    @classmethod
    def from_json(cls, text: str, environ: Mapping[str, str]) -> Self:
        """Return what `to_json` wrote, with the sink from the environment."""
        values: dict[str, Any] = json.loads(text)
        values["journals"] = tuple(Path(item) for item in values["journals"])
        values["home"] = Path(values["home"])
        values["sink"] = environ[SINK_VARIABLE]
        return cls(**values)


def load_metrics_settings(
    home: Path, given: Mapping[str, object], environ: Mapping[str, str]
) -> MetricsSettings:
    """Return the settings; `given` are command-line values, None where an option was not used.

    Relative paths in the file are relative to it. Raises ConfigError naming the key.
    """
    home = home.absolute()
    file, own = read_settings(home), read_own_settings(environ)
    table = {**own.tables.get("metrics", {}), **file.tables.get("metrics", {})}
    root = file.get("broker", "topic_root") or DEFAULT_ROOT
    chosen = {key: value for key, value in given.items() if value is not None}
    if _has_password(str(chosen.get("sink", ""))):
        raise ConfigError(
            "a password on the command line can be read by every user of this host",
            hint=f"put the URL into the environment variable {SINK_VARIABLE}, or the password into ~/.pgpass",
        )
    if environ.get(SINK_VARIABLE):
        chosen.setdefault("sink", environ[SINK_VARIABLE])
    values: dict[str, Any] = {"topic_root": root, **table, **chosen}
    paths = HomePaths(home)
    folder = paths.metrics
    shards = values.get("shards", 1)
    place = str(values.pop("sink", folder / "metrics.db"))
    if shards > MAX_FILES and "://" not in place:
        raise ConfigError(
            f"{shards} shards are too many for SQLite, which joins {MAX_FILES} files",
            hint="put the tables into PostgreSQL: --sink postgresql://...",
        )
    journals = values.pop("journals", None) or [paths.journal]
    history = str(values.pop("history", folder / "history"))
    return MetricsSettings(
        home=home,
        journals=tuple(Path(str(item)).absolute() for item in journals),
        sink=_absolute(place),
        history=_history_place(history) if history else None,
        **values,
    )


def settings_of(args: Namespace, environ: dict[str, str]) -> MetricsSettings:
    """Return the settings that the arguments, environment and jobwire.toml give. Raises ConfigError."""
    given = {name: value for name, value in vars(args).items() if name in MetricsSettings._fields}
    return load_metrics_settings(Path(given.pop("home")), given, environ)


def split_url(url: str) -> SplitResult:
    """Return the parts of the tables' URL; raises ConfigError for what is none."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - read for its check
    except ValueError as error:
        raise ConfigError(
            f"not a URL: {error}", hint="give a file path, or a URL such as postgresql://HOST/NAME"
        ) from error
    return parts


def _has_password(url: str) -> bool:
    return "://" in url and split_url(url).password is not None


def _history_place(place: str) -> str:
    if _has_password(place) or "secret_key=" in place:
        raise ConfigError(
            "a secret in the history's URI can be read by every user of this host",
            hint="put it where the store's own tools look: AWS_SECRET_ACCESS_KEY, or ~/.aws/credentials",
        )
    return _absolute(place)


def _absolute(sink: str) -> str:
    return sink if "://" in sink else os.path.abspath(sink)  # noqa: PTH100 - of a text that may be a URL
