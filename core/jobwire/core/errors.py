"""The error tree: each class carries its exit code, the facts and a remedy.

    JobwireError                   50
    ├── InvalidInputError          30   what the caller gave is not acceptable
    │   ├── ConfigError            30   settings, certificates or files are unusable
    │   └── TransitionError        30   the lifecycle forbids the change
    ├── ConflictError              20   somebody else holds or finished it
    ├── NotFoundError              40   no such job, file or name
    ├── NoWorkError                10   nothing to pick
    ├── StoppedError                3   the job is cancelled or re-claimed: stop working
    ├── StorageError               50   disk full, read-only, corrupt, lock deadline
    └── TransportError
        ├── UnreachableError       60   no broker answered in time
        └── RefusedError           70   the broker said no, or its identity is wrong

Callers branch on the class and on `facts`, never on the text.
"""

from collections.abc import Mapping
from contextlib import suppress

from jobwire.core.exit_codes import ExitCode
from jobwire.core.override import override


class JobwireError(Exception):
    """Root of every expected failure: a sentence, a remedy, and the facts as attributes."""

    exit_code = ExitCode.INTERNAL

    def __init__(self, message: str, *, hint: str = "", **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.facts = facts

    @override
    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def to_json(self) -> dict[str, object]:
        """Return what a program is told of it; `error_of` is the way back."""
        return {"error": self.message, "hint": self.hint, "exit_code": int(self.exit_code)}


def error_of(said: Mapping[str, object]) -> JobwireError:
    """Return the error that another process told of by `to_json`; an unknown exit code is INTERNAL."""
    error = JobwireError(str(said["error"]), hint=str(said.get("hint", "")))
    with suppress(ValueError):
        error.exit_code = ExitCode(said.get("exit_code"))  # type: ignore[arg-type]  # any other is a ValueError
    return error


class InvalidInputError(JobwireError):
    """The caller's input, usage or configuration is not acceptable."""

    exit_code = ExitCode.INVALID


class ConfigError(InvalidInputError):
    """A setting, certificate, access list or password file is unusable."""


class TransitionError(InvalidInputError):
    """The lifecycle forbids going from one state to the other."""


class ConflictError(JobwireError):
    """Another worker holds the job, or it is already finished."""

    exit_code = ExitCode.CONFLICT


class NotFoundError(JobwireError):
    """The named job, file or identity does not exist."""

    exit_code = ExitCode.NOT_FOUND


class NoWorkError(JobwireError):
    """No pending job matches."""

    exit_code = ExitCode.NO_WORK


class StoppedError(JobwireError):
    """The job was cancelled or claimed by another attempt: its worker must stop."""

    exit_code = ExitCode.STOPPED


class StorageError(JobwireError):
    """The disk, a lock or a stored file failed."""


class TransportError(JobwireError):
    """The broker could not be used."""


class UnreachableError(TransportError):
    """No broker answered within the deadline."""

    exit_code = ExitCode.UNREACHABLE


class RefusedError(TransportError):
    """The broker refused us, or we refused the broker: identity, rights or certificate."""

    exit_code = ExitCode.REFUSED
