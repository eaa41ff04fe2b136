"""The one boundary of every command: how a failure is told, and with which exit code the command ends.

On the path of `publish_event`, which mostly does without argparse.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from functools import partial

from jobwire.core.errors import ConfigError, InvalidInputError, JobwireError, NotFoundError, StorageError
from jobwire.core.exit_codes import ExitCode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

# 128 + SIGINT, as shells report it.
INTERRUPTED = 130
# Objects until garbage is looked for; with Python's 700 that is a tenth of a short command's time.
_COLLECT_AFTER = 10_000
# Whatever the disk holds: what was named cannot be what is wanted.
_NO_NAMES = frozenset(
    {errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ENXIO, errno.ENODEV}
)


def missing_library(error: ModuleNotFoundError, extra: str) -> Exception:
    """Return what to say of an import that failed: which extra brings it; a fault of our own as it is."""
    if error.name is None or error.name.startswith("jobwire") or not extra:
        return error
    return ConfigError(
        f"this needs {error.name}, which is not installed",
        hint=f"pip install 'jobwire[{extra}]'; with pipx: pipx install --force 'jobwire[{extra}]'",
    )


def run_command(
    body: Callable[[Namespace], int],
    args: Namespace,
    *,
    prog: str,
    as_json: bool,
    tell: Callable[[JobwireError], None] | None = None,
) -> int:
    """Run a command's body and return its exit code; expected failures become one clear message.

    `tell` says it instead of `report`.
    What the operating system refuses is expected, whoever met it. What nobody expected is a defect: it gets
    its trace and INTERNAL (Python would end with 1, JOB_ERROR).
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names of files need not be text, and not every terminal has every character: as stderr does it.
        sys.stdout.reconfigure(errors="backslashreplace")
    tell = tell or partial(report, prog=prog, as_json=as_json)
    try:
        return int(body(args))
    except JobwireError as error:
        tell(error)
        return int(error.exit_code)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not an error. Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.OK)
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        found = _refused_by_the_system(error)
        tell(found)
        return int(found.exit_code)
    except Exception as error:  # noqa: BLE001 - the one boundary of every command
        _report_defect(error, tell, as_json=as_json)
        return int(ExitCode.INTERNAL)


def _refused_by_the_system(error: OSError) -> JobwireError:
    """Return the error for what no component saw coming: a name, a right or a disk, never a defect."""
    text = f"{error.filename}: {error.strerror}" if error.filename is not None else str(error)
    if error.errno in _NO_NAMES:
        return InvalidInputError(text, hint="name another file or directory")
    if isinstance(error, FileNotFoundError):
        return NotFoundError(text, hint="is the name right?")
    return StorageError(text, hint="see its owner and mode, and the disk", errno=error.errno)


def _report_defect(error: Exception, tell: Callable[[JobwireError], None], *, as_json: bool) -> None:
    import traceback  # noqa: PLC0415 - for defects only

    trace = "".join(traceback.format_exception(error))
    hint = "this is a defect of jobwire; report it with the command and this trace"
    if not as_json:
        print(trace, end="", file=sys.stderr)
    tell(JobwireError(f"unexpected {type(error).__name__}: {error}", hint=hint, trace=trace))


def report(error: JobwireError, *, prog: str, as_json: bool) -> None:
    """Write cause and remedy to stderr."""
    print(in_words(error, prog=prog, as_json=as_json), end="", file=sys.stderr)


def in_words(error: JobwireError, *, prog: str, as_json: bool) -> str:
    """Return cause and remedy, as two lines or as one JSON object on a line."""
    if as_json:
        import json  # noqa: PLC0415 - a help, and most failures, are told in words

        trace = {"trace": error.facts["trace"]} if "trace" in error.facts else {}
        return json.dumps({**error.to_json(), **trace}) + "\n"
    hint = f"{prog}: hint: {error.hint}\n" if error.hint else ""
    return f"{prog}: error: {error.message}\n{hint}"


def end_program(run: Callable[[], int], argv: Sequence[str] | None) -> int:
    """Run a command; one that is the process's own (no `argv`) ends the process with its code.

    Where it has had threads, Python ends it, and waits for them.
    """
    if argv is None:
        gc.set_threshold(_COLLECT_AFTER)
    try:
        code = run()
    except SystemExit as end:
        # argparse has printed help or usage, or what is under way is not to be waited for.
        if argv is None and isinstance(end.code, int):
            leave(end.code)
        raise
    if argv is None and "threading" not in sys.modules:
        leave(code)
    return code


def leave(code: int) -> None:
    """End the process without taking apart what the system frees anyway: a tenth of a short command.

    For a program that is done, with no thread of its own left. Returns where what it said cannot be written:
    then Python ends as it does, and says so.
    """
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code)
