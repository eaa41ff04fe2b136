"""What the doctor says: one sentence an examination, and a remedy where it is not well."""

import enum
from typing import NamedTuple

from jobwire.core.exit_codes import ExitCode


class State(enum.StrEnum):
    """How an examination ended."""

    WELL = "ok"
    WARNING = "warning"
    ILL = "fails"
    SKIPPED = "skipped"


class Report(NamedTuple):
    """One examination: its subject, how it ended, in plain words, and the remedy."""

    subject: str
    state: State
    message: str
    hint: str = ""
    exit_code: ExitCode = ExitCode.OK


def well(subject: str, message: str) -> Report:
    """Return a report that all is well."""
    return Report(subject, State.WELL, message)


def warning(subject: str, message: str, hint: str) -> Report:
    """Return a report of something that works and should be better."""
    return Report(subject, State.WARNING, message, hint)


def ill(subject: str, message: str, hint: str, exit_code: ExitCode = ExitCode.INVALID) -> Report:
    """Return a report of something that does not work."""
    return Report(subject, State.ILL, message, hint, exit_code)


def skipped(subject: str, message: str) -> Report:
    """Return a report of something that could not be examined, and why."""
    return Report(subject, State.SKIPPED, message)


def verdict(reports: list[Report]) -> ExitCode:
    """Return OK if nothing is ill, else the code of the first thing that is."""
    return next((report.exit_code for report in reports if report.state is State.ILL), ExitCode.OK)
