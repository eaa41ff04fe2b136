"""One Spark session with the settings this pipeline was measured with (docs/adr/0403)."""

import os
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

KEYS_FILE_VARIABLE = "JOBWIRE_KEYS_FILE"
_PACKAGE = Path(__file__).parent
LOG_SETTINGS = _PACKAGE / "log4j2.properties"

# Reasons beside each: what it costs not to have it.
_SETTINGS: dict[str, str] = {
    # The default manager forks chmod and readlink some twenty times a batch: 40 ms. The driver's own
    # lock keeps a second query off the checkpoint.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # 30 ms a batch between JVM and Python workers, against loopback TCP.
    "spark.python.unix.domain.socket.enabled": "true",
    # Nothing here shuffles by default; what a user adds should not pay for 200 empty tasks.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # A port and a web server per run, for one query whose health has a table.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # 3 ms a batch of planning; there is no shuffle to adapt.
    "spark.sql.adaptive.enabled": "false",
    # The text of each plan, twice a batch, for a page that nobody serves.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.sql.streaming.minBatchesToRetain": "10",
    # An idle query asks the journal for news this often; the default 10 ms keeps a core warm.
    "spark.sql.streaming.pollingDelay": "20ms",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}

# What only the metrics query wants: no state store, one scan, small batches.
QUERY_SETTINGS = {
    # Checkpoint files without a .crc beside each: half the files, and nothing more that a crash can tear.
    # Spark's RocksDB state store insists on the other class.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    # Tasks give counts. What would bring rows here shall fail, not grow the driver.
    "spark.driver.maxResultSize": "4m",
    # The query computes nothing in the JVM that would repay writing Java for each batch: 8 ms of 62.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}

# For the metrics query: its small batches plan much and compute little, so the optimising compiler
# would take half of the JVM's time for minutes, on cores that broker and recorder share. The first
# compiler alone does it. Not for every session: long queries over many rows want the other one.
QUICK_JAVA = "-XX:TieredStopAtLevel=1"


class SparkSettings(NamedTuple):
    """What differs from run to run.

    `memory` is the driver's heap, `java` more flags, as Java writes them; `home` is where `spark_home` may
    stand for as long as the session lives.
    """

    master: str = "local[2]"
    memory: str = "1g"
    java: str = ""
    log_file: Path | None = None
    home: Path | None = None
    app_name: str = "jobwire metrics"
    extra: Mapping[str, str] = {}  # never changed in place


def start_session(settings: SparkSettings) -> Any:
    """Return the process's Spark session, started with `settings` (4 to 7 s).

    Sets PYSPARK_PYTHON to this interpreter unless the environment names one: another Python in the
    workers would miss our packages.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - half a second, and commands like `show` need none

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if settings.master.startswith("local"):
        # Without it Spark looks up the host's name and may bind to an outside address.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        if settings.home is not None and "SPARK_HOME" not in os.environ:
            os.environ["SPARK_HOME"] = str(spark_home(settings.home))
    builder = SparkSession.builder.appName(settings.app_name)
    for name, value in configuration(settings).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def spark_home(folder: Path) -> Path:
    """Make `folder` a Spark home of links into the installed one, and return it.

    Spark puts the zipped Python sources of its home before what is installed, and has half a dozen
    processes, each of which would compile them anew: a quarter of a start's processor time. This home
    has none.
    """
    installed, folder = resources.files("pyspark"), folder.absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in ("bin", "jars"):
        link, target = folder / name, Path(str(installed / name))
        if not (link.is_symlink() and link.readlink() == target):
            link.unlink(missing_ok=True)  # of an older installation
            link.symlink_to(target)
    return folder


def configuration(settings: SparkSettings) -> dict[str, str]:
    """Return the session's configuration, `extra` having the last word."""
    options = {**_SETTINGS, "spark.driver.memory": settings.memory}
    if settings.master:  # under spark-submit it names the master
        options["spark.master"] = settings.master
    if settings.log_file is not None:
        options["spark.driver.extraJavaOptions"] = f"{java_options(settings.log_file)} {settings.java}"
    if os.environ.get(KEYS_FILE_VARIABLE):
        # Executors on other hosts do not inherit our environment. It is the name of a file, no key.
        options[f"spark.executorEnv.{KEYS_FILE_VARIABLE}"] = os.environ[KEYS_FILE_VARIABLE]
    if settings.master.startswith("local"):
        options["spark.driver.bindAddress"] = "127.0.0.1"
        options["spark.driver.host"] = "127.0.0.1"
    return {**options, **settings.extra}


def java_options(log_file: Path) -> str:
    """Return the JVM's flags: its log goes to a rolling file, off the terminal."""
    return (
        f"-Dlog4j2.configurationFile=file:{LOG_SETTINGS} -Djobwire.log={log_file} "
        # Two cores are shared with workers in Python: the parallel collector's threads would fight them.
        "-XX:+UseSerialGC -XX:MaxMetaspaceSize=512m "
        # A query that fails runs a recursive pattern over the failure's text. With the default of 1 MB
        # its thread died of that (StackOverflowError) and the query was never reported as ended.
        "-Xss8m"
    )
