"""A standalone Spark cluster of processes on this machine: one master, a few workers, on loopback.

For the tests, `make cluster`, and anyone who wants to see the pipeline on a cluster before there is
one. Nothing but the installed `pyspark` is needed. Web pages get free ports; everything is ended,
and only what was started, when the context ends. The processes are in sessions of their own: Ctrl-C
in a terminal reaches the program that started them, which ends them in order.
"""

import json
import os
import re
import sys
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from jobwire.core.clock import Clock
from jobwire.metrics.errors import QueryError
from jobwire.metrics.session import spark_home
from jobwire.storage.process import ManagedProcess

HOST = "127.0.0.1"
EXECUTOR = "CoarseGrainedExecutorBackend"
# For JVMs that live a minute: the second compiler's threads would take more time than they give back.
QUICK_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_START_SECONDS = 120.0
_MASTER_PORT = re.compile(r"Starting Spark master at spark://[^:]+:(\d+)")
_WEB_PORT = re.compile(r"Bound MasterWebUI to (?:\S+ ){1,8}http://[^:]+:(\d+)")
_STEP_SECONDS = 0.1
_END_SECONDS = 20.0


class StandaloneCluster:
    """`workers` worker processes of one core each; `url` is for --master.

    `worker_prefix` goes before each worker's command line: `unshare`, for a worker that sees other
    directories, or `taskset`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Clock,
        workers: int = 2,
        worker_memory: str = "1g",
        worker_prefix: Sequence[str] = (),
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._home = folder.absolute() / "spark"
        self._count = workers
        self._memory = worker_memory
        self._prefix = list(worker_prefix)
        self._port = self._web_port = 0
        self._processes: list[ManagedProcess] = []

    @property
    def url(self) -> str:
        """Return the master's address, once it is started."""
        return f"spark://{HOST}:{self._port}"

    def environment(self) -> dict[str, str]:
        """Return the environment that the cluster and `spark-submit` need."""
        return os.environ | {
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            # The REST server would take a port of its own choice.
            "SPARK_DAEMON_JAVA_OPTS": f"{QUICK_START} -Dspark.master.rest.enabled=false",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }

    def submit_command(
        self, program: Path, words: Sequence[str], *, options: Mapping[str, str] | None = None
    ) -> list[str]:
        """Return the `spark-submit` command line that runs `program` on this cluster."""
        chosen = {
            "spark.executor.memory": "640m",
            "spark.executor.cores": "1",
            "spark.driver.memory": "640m",
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            **(options or {}),
        }
        settings = [word for name, value in chosen.items() for word in ("--conf", f"{name}={value}")]
        submit = str(self._home / "bin" / "spark-submit")
        return [submit, "--master", self.url, *settings, str(program), *words]

    def start(self) -> None:
        """Start master and workers; return when all workers are registered. Raises QueryError."""
        spark_home(self._home)
        self._launch(
            "master",
            "org.apache.spark.deploy.master.Master",
            # A port that was free a moment ago may be somebody's now: the master takes one, and says which.
            ["--host", HOST, "--port", "0", "--webui-port", "0"],
        )
        give_up = self._clock.monotonic() + _START_SECONDS
        self._wait(self._read_ports, give_up)
        for number in range(self._count):
            self._launch(
                f"worker-{number}",
                "org.apache.spark.deploy.worker.Worker",
                [
                    *("--host", HOST, "--cores", "1", "--memory", self._memory, "--webui-port", "0"),
                    *("--work-dir", str(self._folder / f"work-{number}"), self.url),
                ],
                prefix=self._prefix,
            )
        self._wait(lambda: len(self.workers()) == self._count, give_up)

    def _wait(self, ready: Callable[[], bool], give_up: float) -> None:
        while not ready():
            if self._clock.monotonic() >= give_up or not all(one.alive() for one in self._processes):
                raise QueryError("the cluster does not start", hint=f"logs stand in {self._folder}")
            self._clock.sleep(_STEP_SECONDS)

    def _read_ports(self) -> bool:
        """Take the master's ports from its log; False while they do not stand there."""
        text = self._processes[0].said()
        port, web = _MASTER_PORT.search(text), _WEB_PORT.search(text)
        if port is None or web is None:
            return False
        self._port, self._web_port = int(port[1]), int(web[1])
        return True

    def workers(self) -> list[dict[str, Any]]:
        """Return what the master knows of its living workers; nothing while it does not answer."""
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self._web_port}/json/", timeout=5) as answer:
                return [one for one in json.load(answer)["workers"] if one["state"] == "ALIVE"]
        except (OSError, ValueError, KeyError):
            return []

    def executors(self) -> list[int]:
        """Return the process ids of the executors that the workers run."""
        return [pid for process in self._processes for pid in descendants(process.pid, EXECUTOR)]

    def stop(self) -> None:
        """End workers and master; idempotent."""
        processes, self._processes = self._processes, []
        for process in reversed(processes):
            process.end()
        for process in reversed(processes):
            process.stop()

    def _launch(self, name: str, main: str, words: list[str], *, prefix: Sequence[str] = ()) -> None:
        self._processes.append(
            ManagedProcess(
                [*prefix, self._home / "bin" / "spark-class", main, *words],
                log=self._folder / f"{name}.log",
                folder=self._folder,
                environ=self.environment(),
                grace_seconds=_END_SECONDS,
            ).start()
        )

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def descendants(root: int, words: str) -> list[int]:
    """Return the processes started by `root`, or by those, whose command line holds `words`."""
    parents: dict[int, int] = {}
    lines: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            stat = (folder / "stat").read_text()
            lines[int(folder.name)] = (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue  # ended meanwhile
        parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    family, grew = {root}, True
    while grew:
        children = {pid for pid, parent in parents.items() if parent in family}
        grew = not children <= family
        family |= children
    return [pid for pid in sorted(family - {root}) if words in lines.get(pid, "")]
