"""Exit codes shared by every command: one table, printed in each `--help`."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a finished command tells its caller; the numbers are a contract."""

    OK = 0
    JOB_ERROR = 1
    TIMEOUT = 2
    STOPPED = 3
    NO_WORK = 10
    CONFLICT = 20
    INVALID = 30
    NOT_FOUND = 40
    INTERNAL = 50
    UNREACHABLE = 60
    REFUSED = 70


MEANINGS: dict[ExitCode, str] = {
    ExitCode.OK: "success; the watched job completed",
    ExitCode.JOB_ERROR: "the watched job ended in error",
    ExitCode.TIMEOUT: "the watched job timed out (idle, wall or pending: stderr says which)",
    ExitCode.STOPPED: "the job is cancelled or was claimed by another attempt: stop working",
    ExitCode.NO_WORK: "no matching work",
    ExitCode.CONFLICT: "conflict (lease held, already terminal)",
    ExitCode.INVALID: "invalid input, usage, configuration or state transition",
    ExitCode.NOT_FOUND: "not found",
    ExitCode.INTERNAL: "storage or internal error",
    ExitCode.UNREACHABLE: "broker unreachable; the event is kept in the outbox",
    ExitCode.REFUSED: "refused by the broker: authentication, authorisation or certificate",
}


def help_table() -> str:
    """Return the table as text for the end of a command's `--help`."""
    rows = (f"  {code.value:>3}  {MEANINGS[code]}" for code in ExitCode)
    return "exit codes:\n" + "\n".join(rows)
