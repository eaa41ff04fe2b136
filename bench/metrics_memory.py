"""The most resident memory each process below this one held, by what the process is."""

import contextlib
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

_EVERY_SECONDS = 0.25
# The first of these words in a command line names the process.
_NAMES = (
    ("metrics_load.py record", "recorder"),
    ("metrics_load.py publish", "publisher"),
    ("metrics_load.py", "plain consumer"),
    ("jobwire.metrics.job", "Spark driver, Python"),
    ("bin/java", "Spark JVM"),
    ("pyspark.daemon", "Spark worker, Python"),
    ("python_streaming_source_runner", "source runner, Python"),
    ("pyspark", "source runner, Python"),
    ("metrics run", "supervisor"),
    ("mosquitto", "mosquitto"),
)


class Memory:
    """Samples the descendants of `pid` while it is entered; MiB, the largest where there are several."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peaks: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def peak_mib(self) -> dict[str, float]:
        """Return each process's peak, in MiB."""
        return {name: kib / 1024 for name, kib in sorted(self._peaks.items())}

    def _sample(self) -> None:
        while not self._stop.wait(_EVERY_SECONDS):
            for pid in _descendants(self._pid):
                # A process may end between any two looks at it.
                with contextlib.suppress(OSError, ValueError, IndexError):
                    self._note(pid)

    def _note(self, pid: int) -> None:
        folder = Path("/proc") / str(pid)
        words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        name = next((name for mark, name in _NAMES if mark in words), None)
        if name is None:
            return
        status = (folder / "status").read_text()
        # proc(5): VmRSS counts shared pages in each process that maps them.
        resident = int(status.split("VmRSS:")[1].split()[0])
        self._peaks[name] = max(self._peaks.get(name, 0), resident)


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, IndexError):
                # proc(5): the parent's id is the second word after the name, which may hold anything.
                parent = (Path(entry.path) / "stat").read_text().rpartition(")")[2].split()[1]
                children.setdefault(int(parent), []).append(int(entry.name))
    found, todo = [], [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found
