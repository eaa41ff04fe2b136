"""What is checked before Spark starts, so that a failure is one sentence and not a stack of Java."""

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

from jobwire.core.errors import ConfigError, StorageError
from jobwire.journal.reader import JournalReader
from jobwire.metrics.database import POSTGRES_SCHEMES
from jobwire.metrics.errors import FolderError
from jobwire.metrics.java import find_java
from jobwire.metrics.session import KEYS_FILE_VARIABLE
from jobwire.metrics.settings import MetricsSettings

_NEEDED = ("pyspark", "pyarrow", "pandas")


def check(settings: MetricsSettings, environ: Mapping[str, str], *, patient: bool = False) -> None:
    """Raise the first thing that stands in the way: packages, Java, directories, journal, keys.

    ConfigError (30), JournalNotFound (40) or StorageError (50); a `patient` run does not mind that the
    history's store is away. Starts Java once (0.1 s).
    """
    _check_packages(settings)
    find_java(environ)
    interpreter = environ.get("PYSPARK_PYTHON")
    if interpreter and not os.access(interpreter, os.X_OK):
        raise ConfigError(
            f"PYSPARK_PYTHON is {interpreter}, which cannot be run",
            hint="unset it: the default is this Python",
        )
    _check_writable(settings.folder, "what a run leaves behind")
    if settings.history is not None:
        _check_history(settings.history, patient=patient)
    if settings.ingest and not settings.verify:
        raise ConfigError(
            "--ingest records without keys, so nothing would count as accepted",
            hint="add --verify, or let `jobwire serve` record",
        )
    if settings.verify and not environ.get(KEYS_FILE_VARIABLE):
        raise ConfigError(
            f"--verify needs the environment variable {KEYS_FILE_VARIABLE}",
            hint="`jobwire metrics keys --out FILE` writes the file",
        )
    if not settings.ingest:
        for directory in settings.journals:
            JournalReader(directory).close()


def _check_history(place: str, *, patient: bool) -> None:
    if "://" not in place:
        _check_writable(Path(place).parent, "the history")
        return
    from jobwire.journal.history import History  # noqa: PLC0415 - the packages were looked for just now

    try:
        History(place).check()
    except StorageError as error:
        if not (patient and error.facts.get("away")):
            raise


def _check_packages(settings: MetricsSettings) -> None:
    needed = list(_NEEDED)
    if settings.sink.split("://", maxsplit=1)[0] in POSTGRES_SCHEMES:
        needed.append("psycopg")
    for name in needed:
        if importlib.util.find_spec(name) is None:
            raise ConfigError(
                f"metrics need {name}, which is not installed", hint="pip install 'jobwire[metrics]'"
            )


def _check_writable(folder: Path, what: str) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FolderError(f"cannot create {folder} for {what}: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FolderError(f"{folder} is not writable: {what} lives there", hint=f"check who owns {folder}")
