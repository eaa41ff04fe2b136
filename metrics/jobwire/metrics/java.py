"""Finding the Java that Spark will use, and saying plainly when there is none."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from jobwire.metrics.errors import JavaMissingError

# Spark 4 runs on these; others are refused by its launcher or fail later in odd ways.
OLDEST = 17
REMEDY = "install Java 17: `apt-get install openjdk-17-jre-headless`, or set JAVA_HOME"
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_START_SECONDS = 20


class Java(NamedTuple):
    """An executable and its major version."""

    path: str
    version: int


def find_java(environ: Mapping[str, str]) -> Java:
    """Return the Java that Spark's launcher takes: that of JAVA_HOME, else the first on PATH.

    Starts it once to ask its version (about 0.1 s). Raises JavaMissingError with the remedy.
    """
    path = _executable(environ)
    try:
        answer = subprocess.run(
            [path, "-version"], capture_output=True, text=True, timeout=_START_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissingError(f"{path} does not run: {error}", hint=REMEDY) from error
    version = java_version(answer.stderr + answer.stdout)
    if version is None:
        raise JavaMissingError(f"{path} does not tell its version", hint=REMEDY)
    if version < OLDEST:
        raise JavaMissingError(
            f"{path} is Java {version}, Spark needs {OLDEST}", hint=REMEDY, version=version
        )
    return Java(path, version)


def java_version(text: str) -> int | None:
    """Return the major version that `java -version` prints, or None ("1.8.0" is 8)."""
    found = _VERSION.search(text)
    if found is None:
        return None
    major, minor = int(found[1]), found[2]
    return int(minor) if major == 1 and minor else major


def _executable(environ: Mapping[str, str]) -> str:
    home = environ.get("JAVA_HOME", "")
    if home:
        path = Path(home) / "bin" / "java"
        if not os.access(path, os.X_OK):
            raise JavaMissingError(f"JAVA_HOME is {home}, but there is no java in it", hint=REMEDY)
        return str(path)
    found = shutil.which("java", path=environ.get("PATH"))
    if found is None:
        raise JavaMissingError(
            "metrics are computed by Spark, which needs Java: none is installed", hint=REMEDY
        )
    return found
