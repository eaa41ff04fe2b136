"""Spark's JVMs start in half the processor time: they share one archive of the classes that they load."""

import fcntl
import os
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from jobwire.core.clock import SystemClock
from jobwire.journal.writer import JournalWriter
from jobwire.metrics import job
from jobwire.metrics.java import find_java
from jobwire.metrics.session import QUICK_JAVA, java_options, spark_home
from jobwire.testing.homes import new_home
from jobwire.testing.rehearsal import Rehearsal

_LONG_SECONDS = 300


def quick_java(folder: Path) -> str:
    """Return JVM flags for JDK_JAVA_OPTIONS; the archive is made in `folder` where there is none yet.

    Making it takes a Spark run. Java itself looks whether an archive fits, and goes without where not.
    """
    version = find_java(os.environ).version
    archive = folder / f"pyspark-{metadata.version('pyspark')}-java-{version}.jsa"
    with (folder / "making.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # workers of one test run come here at once
        if not archive.exists():
            _make(archive)
    # Spark's launcher is a JVM as well, with other classes: it would say that the archive is not for it.
    return f"{QUICK_JAVA} -XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"


def _make(archive: Path) -> None:
    """Compute the metrics of a small journal, and let the JVM leave its classes behind."""
    with tempfile.TemporaryDirectory(prefix="jobwire-spark-") as name:
        folder = Path(name)
        home = new_home(folder / "home")
        with JournalWriter(home / "journal", clock=SystemClock()) as writer:
            writer.append(list(Rehearsal(seed=1, jobs=5)))
        flags = f"{java_options(folder / 'spark.log')} {QUICK_JAVA} -XX:ArchiveClassesAtExit={archive}.new"
        environment = os.environ | {
            "SPARK_HOME": str(spark_home(folder / "spark")),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        subprocess.run(
            [
                *(folder / "spark" / "bin" / "spark-submit", "--master", "local[2]"),
                *("--conf", f"spark.driver.extraJavaOptions={flags}"),
                *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"),
                *(str(job.__file__), "once", "--home", home),
            ],
            env=environment,
            check=True,
            capture_output=True,
            timeout=_LONG_SECONDS,
        )
    Path(f"{archive}.new").rename(archive)
