"""How a process ended, kept as waitpid(2) says it: an exit status and a signal are two things (pure)."""

import json
import signal
from typing import NamedTuple

# What shells give for a command that cannot be started (POSIX, Shell Command Language 2.8.2).
NOT_EXECUTABLE = 126
NOT_FOUND = 127
_SIGNAL_BASE = 128


class ExitStatus(NamedTuple):
    """An exit status, or the number of the signal that killed it; never both."""

    exit_status: int | None = None
    signal: int | None = None

    @classmethod
    def of_returncode(cls, code: int) -> "ExitStatus":
        """Return the ending that `subprocess` gives as one number: below 0 it is a signal."""
        return cls(exit_status=code) if code >= 0 else cls(signal=-code)

    def to_json(self) -> bytes:
        """Return it as one line of JSON."""
        return json.dumps(self._asdict()).encode() + b"\n"

    @classmethod
    def of_json(cls, text: bytes) -> "ExitStatus | None":
        """Return what `to_json` wrote, None for anything else."""
        try:
            body = json.loads(text)
            ending = cls(body["exit_status"], body["signal"])
        except (ValueError, KeyError, TypeError):
            return None
        return ending if sorted(type(part) is int for part in ending) == [False, True] else None

    @property
    def good(self) -> bool:
        """Tell whether the command succeeded."""
        return self.exit_status == 0

    @property
    def shell_status(self) -> int:
        """Return the one number that a shell has for both (128 + signal): for exit codes only."""
        return self.exit_status if self.exit_status is not None else _SIGNAL_BASE + (self.signal or 0)

    @property
    def sentence(self) -> str:
        """Return it in words."""
        if self.signal is not None:
            return f"killed by {signal_name(self.signal)}"
        return "finished" if self.good else f"exit status {self.exit_status}"

    @property
    def figures(self) -> dict[str, object]:
        """Return it as an event's data: `exit_status`, or `signal` with the signal's name."""
        if self.signal is not None:
            return {"signal": signal_name(self.signal)}
        return {"exit_status": self.exit_status}


def signal_name(number: int) -> str:
    """Return SIGKILL for 9, SIGRTMIN+2 for a real-time signal, and the number where there is no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        if signal.SIGRTMIN < number < signal.SIGRTMAX:
            return f"SIGRTMIN+{number - signal.SIGRTMIN}"
        return f"signal {number}"
