"""Passes a command's output on and keeps it, until the command has ended.

    streams of the command ──► output.log ──► our own output ──► on_output (progress is read there)

A shell returns when its command ends, whoever still holds the command's output open. So does this:
what is there is taken, and what background processes print later is kept by `keep_recording`.
"""

import os
import selectors
import subprocess
from collections.abc import Callable, Sequence

from jobwire.core.clock import Clock
from jobwire.runner.command import Stream
from jobwire.runner.descriptors import write_all

_CHUNK = 64 * 1024
# What a pseudo-terminal passes on arrives a moment after it was written.
_QUIET_SECONDS = 0.05
# A background process may print without end.
_DRAIN_SECONDS = 1.0
_POLL_SECONDS = 0.1


class Pump:
    """Copies streams from one thread. `log` is a descriptor, `complain` takes what a person should know.

    `on_output` gets every chunk with its stream.
    """

    def __init__(
        self,
        streams: Sequence[Stream],
        *,
        log: int,
        on_output: Callable[[Stream, bytes], None],
        complain: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._log = log
        self._on_output = on_output
        self._complain = complain
        self._clock = clock
        self._open = set(streams)
        self._deaf: set[int] = set()
        self._logging = True

    def run(self, ended: int, over: Callable[[], bool]) -> None:
        """Copy until `ended` is readable and `over` agrees, then take what is still there."""
        with selectors.DefaultSelector() as selector:
            for stream in self._open:
                selector.register(stream.source, selectors.EVENT_READ, stream)
            selector.register(ended, selectors.EVENT_READ, None)
            while self._turn(selector, None):
                pass
            selector.unregister(ended)
            while not over():
                self._turn(selector, _POLL_SECONDS)
            until = self._clock.monotonic() + _DRAIN_SECONDS
            while self._open and self._turn(selector, _QUIET_SECONDS) and self._clock.monotonic() < until:
                pass

    @property
    def still_open(self) -> list[Stream]:
        """Return the streams that somebody can still write to."""
        return sorted(self._open)

    def _turn(self, selector: selectors.BaseSelector, seconds: float | None) -> bool:
        """Copy what there is; False when the command has ended, or nothing came within `seconds`."""
        events = selector.select(seconds)
        going = bool(events)
        for key, _ in events:
            if key.data is None:
                going = False
            elif not self._copy(key.data):
                selector.unregister(key.data.source)
                self._open.discard(key.data)
                os.close(key.data.source)
        return going

    def _copy(self, stream: Stream) -> bool:
        """Pass one chunk on; False at the end of the stream."""
        try:
            chunk = os.read(stream.source, _CHUNK)
        except OSError:  # a pseudo-terminal says EIO when nobody has it open any more
            return False
        if not chunk:
            return False
        self._keep(chunk)
        # The job goes on when our own reader went away.
        if stream.sink not in self._deaf and not write_all(stream.sink, chunk):
            self._deaf.add(stream.sink)
        self._on_output(stream, chunk)
        return True

    def _keep(self, chunk: bytes) -> None:
        if not self._logging:
            return
        try:
            rest = memoryview(chunk)
            while rest:
                rest = rest[os.write(self._log, rest) :]
        except OSError as error:
            # A full disk must not end the work: the command would wait for ever in its next print.
            self._logging = False
            self._complain(f"the output is no longer kept: {error.strerror}")


def keep_recording(streams: Sequence[Stream], log: int) -> None:
    """Leave what the command's background processes still print to processes of their own.

    Each copies one stream into the log until nobody has it open. Without a reader the next print would
    kill who prints (SIGPIPE), and a shell leaves them alone.
    """
    for stream in streams:
        os.set_blocking(stream.source, True)
        subprocess.Popen(
            ["cat"],
            stdin=stream.source,
            stdout=log,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        os.close(stream.source)
