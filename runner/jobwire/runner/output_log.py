"""The file with a command's output: its end, and what is added to it."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Self

from jobwire.registry.store import RecordStore
from jobwire.runner.sanitizer import OutputSanitizer

OUTPUT_FILE = "output.log"
_CHUNK = 64 * 1024
# Pieces a turn: who writes faster than we copy must not keep us from noticing the end.
_TURN = 64
_LOOK_SECONDS = 0.1
# A command that was told to end may still say something; its worker gives it five seconds.
_LAST_WORDS_SECONDS = 0.5


def output_path(store: RecordStore, job_id: str) -> Path:
    """Return where the output of `job_id` is kept."""
    return Path(store.log_dir(job_id)) / OUTPUT_FILE


class OutputReader:
    """Copies the file to `sink`, piece by piece; a file that is not there yet is empty."""

    def __init__(self, path: Path, sink: Callable[[bytes], None], *, lines: int | None = None) -> None:
        self._path = path
        self._sink = sink
        self._lines = lines
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    @property
    def found(self) -> bool:
        """Tell whether there is a file."""
        return self._descriptor is not None

    def step(self) -> bool:
        """Copy what is there, some megabytes at most; tell whether there was anything.

        At first from the last `lines` lines on.
        """
        if self._descriptor is None:
            try:
                self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
            if self._lines is not None:
                os.lseek(self._descriptor, start_of_last_lines(self._descriptor, self._lines), os.SEEK_SET)
        for turn in range(_TURN):
            piece = os.read(self._descriptor, _CHUNK)
            if not piece:
                return turn > 0
            self._sink(piece)
        return True

    def follow(self, over: Callable[[], bool], wait: Callable[[float], object]) -> None:
        """Copy until `over` says that nothing more is to come, and what came before that."""
        while not over():
            if not self.step():
                wait(_LOOK_SECONDS)
        wait(_LAST_WORDS_SECONDS)
        self.rest()

    def rest(self) -> None:
        """Copy what is there at this moment, and nothing that is added meanwhile."""
        self.step()
        if self._descriptor is not None:
            size = os.fstat(self._descriptor).st_size
            while os.lseek(self._descriptor, 0, os.SEEK_CUR) < size:
                self.step()


def start_of_last_lines(descriptor: int, count: int) -> int:
    """Return the offset at which the last `count` lines of the file begin; an unfinished one counts."""
    end = os.fstat(descriptor).st_size
    if count <= 0:
        return end
    # The line break that ends the last line begins none.
    position, left = end - 1, count
    while position > 0:
        begin = max(0, position - _CHUNK)
        block = os.pread(descriptor, position - begin, begin)
        breaks = block.count(b"\n")
        if breaks >= left:
            at = len(block)
            for _ in range(left):
                at = block.rindex(b"\n", 0, at)
            return begin + at + 1
        left -= breaks
        position = begin
    return 0


class OutputSink:
    """Standard output: raw for programs, harmless on a terminal."""

    def __init__(self) -> None:
        self._shown = OutputSanitizer() if sys.stdout.isatty() else None

    def __call__(self, piece: bytes) -> None:
        """Write one piece."""
        self._write(piece if self._shown is None else self._shown.feed(piece).encode("utf-8", "replace"))

    def finish(self) -> None:
        """Write what was kept back."""
        if self._shown is not None:
            self._write(self._shown.finish().encode("utf-8", "replace"))

    @staticmethod
    def _write(data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
