"""Where a hook begins and ends: a Python of its own (`injection.hook_words`), or `jobwire hook AGENT`.

An agent stands still while it runs, so the registry process does its work where one runs, and else it loads
what its sign needs and nothing else. It fails open: whatever goes wrong, the agent goes its own way, and one
line on stderr says why.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from typing import IO

    from jobwire.hooks.kinds import HookKind
    from jobwire.hooks.signs import Said

WAKE = "--wake"
# An agent that waits for nobody is woken by this exit code, and told what stands on stderr.
WAKES = 2
# What the registry process says begins with one of these: what to print, or why it could not be kept.
ANSWER, ERROR = b"a", b"e"
# Below the time that a launch gives our hooks.
ANSWER_SECONDS = 25.0
_CHUNK = 1024 * 1024


def main(argv: Sequence[str] | None = None) -> int:
    """Run one hook; as a program of its own (no `argv`) end the process."""
    if argv is None:
        gc.disable()  # for a tenth of a second there is no garbage worth looking for
    words = list(sys.argv[1:] if argv is None else argv)
    code = hook(words[0] if words else "", words[1:], environ=os.environ)
    if argv is None:
        _leave(code)
    return code


def command(args: argparse.Namespace) -> int:
    """Do what `jobwire hook` does."""
    rest = [WAKE] if args.wake else []
    rest += [args.input] if args.input is not None else []
    return hook(args.agent, rest, environ=os.environ, home=args.home)


def hook(agent: str, rest: Sequence[str], *, environ: Mapping[str, str], home: str | None = None) -> int:
    """Take one hook's input from stdin, or as the last word (Codex's notify); print the answer, if any."""
    if not (environ.get("JOBWIRE_JOB") or environ.get("JOBWIRE_SESSION")):
        # Outside of a job: read, so that the agent is not told of a broken pipe, and that is all.
        while not rest and _stdin().read(_CHUNK):
            pass
        return 0
    from jobwire.delivery.call import LostCallError

    try:
        return _hook(agent, rest, environ, home)
    except LostCallError as error:
        _complain(str(error))  # it may have been done, so it is not done again
    except Exception as error:  # noqa: BLE001 - an agent is never stopped by a defect of ours
        # A JobwireError says what to do; what loads the errors is loaded where one was raised.
        message, hint = getattr(error, "message", ""), getattr(error, "hint", "")
        _complain(f"{message}; {hint}" if message else f"unexpected {type(error).__name__}: {error}")
    return 0


def _hook(agent: str, rest: Sequence[str], environ: Mapping[str, str], home: str | None) -> int:
    from jobwire.hooks.raw_input import NoHookInputError, parse, read_whole

    wakes = WAKE in rest
    given = [word for word in rest if word != WAKE]
    try:
        raw = os.fsencode(given[-1]) if given else read_whole(_stdin())
        printed = _done_elsewhere(agent, environ, raw) if home is None and not wakes else None
        if printed is None:
            from jobwire.hooks.kinds import kind_of

            kind = kind_of(agent)
            said = kind.read(parse(raw))
            if said is None:
                return 0
            if wakes:
                return _wake(kind, said, environ, home)
            from jobwire.hooks.handling import respond

            printed = respond(kind, said, environ, home=home)
    except NoHookInputError as error:
        _complain(str(error))
        return 0
    if printed:
        sys.stdout.write(printed)
        sys.stdout.flush()
    return 0


def _done_elsewhere(agent: str, environ: Mapping[str, str], raw: bytes) -> str | None:
    """Return what the registry process says is to be printed; None where the hook has to do its work."""
    from jobwire.delivery.call import call

    home = environ.get("JOBWIRE_HOME", "")
    answer = call(home, agent, environ, raw, answer_seconds=ANSWER_SECONDS)
    if answer is None:
        return None
    text = answer[1:].decode("utf-8", "replace")
    if answer[:1] == ERROR:
        _complain(text)
        return ""
    return text


def _wake(kind: HookKind, said: Said, environ: Mapping[str, str], home: str | None) -> int:
    """Wait behind a turn; return the code that wakes the agent, with what it is told on stderr."""
    from jobwire.hooks.desk import open_desk, place_of
    from jobwire.hooks.waking import wait_behind

    told = wait_behind(open_desk(kind, environ, home=home), place_of(environ, home=home), said)
    if told:
        print(told, file=sys.stderr)  # noqa: T201 - what a command does
    return WAKES if told else 0


def _leave(code: int) -> None:
    """End the process as `jobwire.core.boundary.leave` does, of which a hook needs nothing else."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code)


def _stdin() -> IO[bytes]:
    return sys.stdin.buffer


def _complain(text: str) -> None:
    # One line, whatever an input held.
    print(f"jobwire hook: {' '.join(text.split())[:400]!a}", file=sys.stderr)  # noqa: T201 - as above
