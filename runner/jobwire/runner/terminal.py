"""The person's terminal while a worker's command has it: every key goes there, all its output comes here.

    keyboard ──► socket ──► worker ──► pseudo-terminal of the command
    screen   ◄── socket ◄── worker ◄──┘        our own lines stand between the command's

The terminal is raw from the command's start to its end, so that keys such as Ctrl-C and Ctrl-Z act where
the command's own terminal says. It is given back whenever this block is left, and while we are suspended;
where we are killed the worker gives it back.
"""

import contextlib
import io
import os
import select
import signal
import socket
import termios
import threading
from collections.abc import Callable, Iterator
from typing import Self

from jobwire.core.override import override
from jobwire.runner.descriptors import write_all
from jobwire.runner.screen import Screen
from jobwire.runner.terminal_modes import Modes, raw_modes

# The worker's first byte: from now on the command has the terminal.
READY = b"\0"
_CHUNK = 64 * 1024
_POLL_SECONDS = 0.25
_LAST_SECONDS = 2.0
_IN, _OUT, _ERR = 0, 1, 2


class Terminal:
    """Our standard input and output as one terminal. Use as a context manager, around the worker's life."""

    def __init__(self) -> None:
        self._modes: Modes = termios.tcgetattr(_IN)
        self._socket, self.worker_end = socket.socketpair()
        self._socket.setblocking(False)
        self._complaints, self.worker_errors = os.pipe()
        self._wake_read, self._wake_write = os.pipe()
        self.stderr_apart = not os.isatty(_ERR)
        self._screen = Screen()
        self._guard = threading.Lock()
        self._ready = False
        self._raw = False
        self._typed = b""
        self._thread = threading.Thread(target=self._carry, name="terminal", daemon=True)
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        if not self.stderr_apart:
            self._stack.enter_context(contextlib.redirect_stderr(LineWriter(self.say)))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Show what is left, and give the terminal back."""
        os.write(self._wake_write, b"x")
        self._thread.join(_LAST_SECONDS)
        self._end()
        self._stack.close()
        os.close(self._wake_write)
        if not self._thread.is_alive():
            self._socket.close()
            os.close(self._complaints)
            os.close(self._wake_read)

    def started(self) -> None:
        """Let go of the worker's ends: it has them."""
        self.worker_end.close()
        os.close(self.worker_errors)

    def say(self, text: str) -> None:
        """Show whole lines of ours, now or as soon as they spoil nothing."""
        with self._guard:
            self._screen.hold(text)
            write_all(_OUT, self._screen.ready())

    def take(self) -> None:
        """Set the terminal raw once the command runs; not while somebody else is in the foreground."""
        if self._ready and not self._raw and in_foreground():
            self._raw = True
            termios.tcsetattr(_IN, termios.TCSANOW, raw_modes(self._modes))

    def give_back(self) -> None:
        """Set the terminal's own modes again. Takes no lock: signal handlers call it."""
        if self._raw and in_foreground():
            termios.tcsetattr(_IN, termios.TCSADRAIN, self._modes)
        self._raw = False

    # The carrying thread.

    def _carry(self) -> None:
        sources = {self._socket.fileno(): self._show, self._complaints: self._complain}
        with contextlib.suppress(OSError):  # our terminal hung up: SIGHUP tells
            while sources:
                self.take()
                keys = [_IN] if self._raw and not self._typed else []
                writing = [self._socket] if self._typed and self._ready else []
                # Nobody tells us when we are in the foreground again.
                readable, writable, _ = select.select(
                    [*sources, *keys, self._wake_read], writing, [], _POLL_SECONDS
                )
                for source in readable:
                    if source in sources and not sources[source]():
                        del sources[source]
                if _IN in readable:
                    self._typed = os.read(_IN, _CHUNK)
                if writable:
                    self._typed = self._typed[self._socket.send(self._typed) :]
                if self._wake_read in readable and not set(readable) & set(sources):
                    return

    def _show(self) -> bool:
        chunk = self._socket.recv(_CHUNK)
        if not chunk:
            self._end()
            return False
        if not self._ready:
            self._ready = True
            chunk = chunk.removeprefix(READY)
            self.take()
        with self._guard:
            self._screen.printed(chunk)
            write_all(_OUT, chunk + self._screen.ready())
        return True

    def _end(self) -> None:
        """Give the terminal back at the command's end: what is typed from now on is the shell's."""
        self._ready = False
        self.give_back()
        with self._guard:
            write_all(_OUT, self._screen.end())

    def _complain(self) -> bool:
        text = os.read(self._complaints, _CHUNK)
        self.say(text.decode(errors="replace"))
        return bool(text)


class LineWriter(io.TextIOBase):
    """A text stream whose lines `say` shows, for what is printed beside a command that has the terminal."""

    encoding = "utf-8"

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._rest = ""
        self._guard = threading.Lock()

    @override
    def write(self, text: str) -> int:
        """Take a text; shown line by line."""
        with self._guard:
            lines, line_break, self._rest = (self._rest + text).rpartition("\n")
        if line_break:
            self._say(lines)
        return len(text)

    @override
    def isatty(self) -> bool:
        """Tell what it is in the end."""
        return True

    @override
    def fileno(self) -> int:
        """Return the terminal's descriptor, to ask for its width."""
        return _ERR


def attended() -> bool:
    """Tell whether a person sits before us: input and output are terminals, and we are in the foreground."""
    return os.isatty(_IN) and os.isatty(_OUT) and in_foreground()


def in_foreground() -> bool:
    """Tell whether what is typed is for us: in the background another process has the terminal."""
    try:
        return os.tcgetpgrp(_IN) == os.getpgrp()
    except OSError:
        return False


@contextlib.contextmanager
def job_control(terminal: Terminal | None, tell_worker: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Suspend and resume the worker's command with us (Ctrl-Z, fg, bg) for the block, and tell of a new size.

    The handlers take no lock. The default of SIGTSTP is set again while we are suspended, which only a
    handler in the main thread can do.
    """

    def suspend(*_: object) -> None:
        tell_worker(signal.SIGTSTP)
        if terminal is not None:
            terminal.give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        # The whole group, as the key would; where nobody could wake it (an orphaned one) nothing happens.
        os.killpg(os.getpgrp(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, suspend)
        tell_worker(signal.SIGWINCH)
        if terminal is not None:
            terminal.take()
        tell_worker(signal.SIGCONT)

    def resize(*_: object) -> None:
        tell_worker(signal.SIGWINCH)

    handlers = {signal.SIGTSTP: suspend, signal.SIGWINCH: resize}
    heeded = {number: one for number, one in handlers.items() if signal.getsignal(number) != signal.SIG_IGN}
    before = {number: signal.signal(number, handler) for number, handler in heeded.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
