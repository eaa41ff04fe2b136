"""The standard streams of a command that a person sits before: a pseudo-terminal, whose other end is ours.

The worker leads the session, as a shell does, and the command is its foreground job. So what the command
leaves in the background is not hung up with it, and Ctrl-Z stops it (a session leader's own group would
be an orphaned one, which no key stops: POSIX, 2.2.2).
"""

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import termios
import threading

from jobwire.core.clock import Clock
from jobwire.runner.command import STDERR, STDOUT, Stream, detached
from jobwire.runner.descriptors import write_all
from jobwire.runner.process_session import living_groups
from jobwire.runner.terminal import READY
from jobwire.runner.terminal_modes import copy_size, interrupt_key, raw_modes, same

_CHUNK = 4096
# By which the kernel stops who uses the terminal from the background.
_FOREGROUND_SIGNALS = (signal.SIGTTIN, signal.SIGTTOU)
# After an interrupt from the keyboard, how long the command's end is taken as its effect.
INTERRUPT_SECONDS = 5.0


class PseudoTerminal:
    """See `command.Stdio`. `real` is the person's terminal, whose modes and size the new one has.

    Its output goes to our standard output, from where the person's side shows it. With `stderr_apart`
    the command's error output is a pipe: ours goes somewhere else too. The worker leads a session that has
    no terminal yet.
    """

    stop_signals: tuple[signal.Signals, ...] = (signal.SIGHUP, signal.SIGTERM)

    def __init__(self, real: int, *, stderr_apart: bool, clock: Clock) -> None:
        self._real = real
        self._stderr_apart = stderr_apart
        self._clock = clock
        self._modes = termios.tcgetattr(real)
        # Our end of the terminal, /dev/null before and after: keys and sizes come on threads of their own,
        # and a number that was closed may be another file's by then.
        self._master = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._given = False
        self._interrupted_at = float("-inf")

    def start(self, words: list[str]) -> tuple["subprocess.Popen[bytes]", list[Stream]]:
        """See `Stdio`."""
        master, slave = os.openpty()
        try:
            termios.tcsetattr(slave, termios.TCSANOW, self._modes)
            copy_size(self._real, slave)
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            # As every shell does it: where these were ignored when we were started (a daemon), a command that
            # reads before it is the foreground would have no input (EIO, read(2)) instead of being stopped.
            for number in _FOREGROUND_SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            process = subprocess.Popen(
                words,
                stdin=slave,
                stdout=slave,
                stderr=subprocess.PIPE if self._stderr_apart else slave,
                process_group=0,
            )
        except BaseException:
            os.close(master)
            raise
        finally:
            os.close(slave)
        os.dup2(master, self._master, inheritable=False)
        self._given = True
        self._give_foreground(process.pid)
        # It may have asked for the terminal a moment before it was the foreground.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGCONT)
        write_all(STDOUT, READY)
        streams = [Stream(master, STDOUT)]
        if process.stderr is not None:
            streams.append(Stream(detached(process.stderr), STDERR))
        return process, streams

    def groups(self, pid: int) -> set[int]:  # noqa: ARG002 - the session is ours, whoever the command is
        """See `Stdio`."""
        return living_groups(os.getsid(0)) - {os.getpgrp()}

    def close(self) -> None:
        """See `Stdio`. Our end as the session's leader hangs up nobody: the foreground is our own again."""
        if self._given:
            self._given = False
            # The person's side has its terminal back from here on.
            with socket.socket(fileno=os.dup(STDOUT)) as person, contextlib.suppress(OSError):
                person.shutdown(socket.SHUT_WR)
            self._give_foreground(os.getpgrp())
            nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(nowhere, self._master, inheritable=False)
            os.close(nowhere)

    def type(self, keys: bytes) -> None:
        """Pass on what the person typed; blocks where nobody reads it."""
        with contextlib.suppress(termios.error):
            key = interrupt_key(self._master)
            if key and key in keys:
                self._interrupted_at = self._clock.monotonic()
        write_all(self._master, keys)

    def interrupted(self) -> bool:
        """Tell whether the person has just interrupted the command (Ctrl-C)."""
        return self._clock.monotonic() - self._interrupted_at < INTERRUPT_SECONDS

    def resize(self) -> None:
        """Follow the size of the person's terminal."""
        copy_size(self._real, self._master)

    def in_foreground(self, pid: int) -> bool:
        """Tell whether the terminal is the command's, and not one of its own jobs'."""
        try:
            return os.tcgetpgrp(self._master) == pid
        except OSError:
            return False

    def restore_real(self) -> None:
        """Give the person's terminal its modes back, where whoever set it raw was killed.

        Not where somebody has set it since: a shell that took it over has modes of its own.
        """
        with contextlib.suppress(termios.error):
            if same(termios.tcgetattr(self._real), raw_modes(self._modes)):
                termios.tcsetattr(self._real, termios.TCSANOW, self._modes)

    def _give_foreground(self, group: int) -> None:
        # Blocked: who is not in the foreground itself is stopped for asking (tcsetpgrp(3)).
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        try:
            with contextlib.suppress(OSError):  # it has ended already
                os.tcsetpgrp(self._master, group)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def bring_keys(terminal: PseudoTerminal, source: int) -> None:
    """Bring what is typed from the person's side, on a thread, until that side is gone."""

    def bring() -> None:
        with contextlib.suppress(OSError):
            while keys := os.read(source, _CHUNK):
                terminal.type(keys)
        terminal.restore_real()

    threading.Thread(target=bring, name="keyboard", daemon=True).start()
