"""Where a hook begins and ends: a Python of its own (`injection.hook_words`), or `jobwire hook AGENT`.

An agent stands still while it runs, so it loads what its sign needs and nothing else. It fails open: whatever
goes wrong, the agent goes its own way, and one line on stderr says why.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO

    from jobwire.hooks.desk import AgentPlace, Desk
    from jobwire.hooks.signs import Answered, Said

WAKE = "--wake"
# An agent that waits for nobody is woken by this exit code, and told what stands on stderr.
WAKES = 2
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


def hook(agent: str, rest: Sequence[str], *, environ: Mapping[str, str], home: str | None = None) -> int:
    """Take one hook's input from stdin, or as the last word (Codex's notify); print the answer, if any."""
    if not (environ.get("JOBWIRE_JOB") or environ.get("JOBWIRE_SESSION")):
        # Outside of a job: read, so that the agent is not told of a broken pipe, and that is all.
        while not rest and _stdin().read(_CHUNK):
            pass
        return 0
    from jobwire.core.errors import JobwireError

    try:
        return _hook(agent, rest, environ, home)
    except JobwireError as error:
        _complain(f"{error.message}; {error.hint}")
    except Exception as error:  # noqa: BLE001 - an agent is never stopped by a defect of ours
        _complain(f"unexpected {type(error).__name__}: {error}")
    return 0


def _hook(agent: str, rest: Sequence[str], environ: Mapping[str, str], home: str | None) -> int:
    from jobwire.hooks.kinds import kind_of
    from jobwire.hooks.raw_input import NoHookInputError, parse, take_input

    kind = kind_of(agent)
    wakes = WAKE in rest
    given = [word for word in rest if word != WAKE]
    try:
        body = parse(os.fsencode(given[-1])) if given else take_input(_stdin())
    except NoHookInputError as error:
        _complain(str(error))
        return 0
    said = kind.read(body)
    if said is None:
        return 0
    from jobwire.hooks.desk import open_desk, place_of

    if said.sign == "begun" and environ.get("JOBWIRE_SESSION") and not said.within:
        from jobwire.hooks.session import note_conversation

        note_conversation(environ, said, home=home)
    desk = open_desk(kind, environ, home=home)
    place = place_of(environ, home=home)
    if wakes:
        from jobwire.hooks.waking import wait_behind

        told = wait_behind(desk, place, said)
        if told:
            print(told, file=sys.stderr)  # noqa: T201 - what a command does
        return WAKES if told else 0
    if place is not None and said.sign == "prompted" and not said.within:
        from jobwire.hooks.idle import end_waiting

        end_waiting(place)
    answered = _handled(desk, place, said)
    answer = kind.write(said, answered) if answered else None
    if answer is not None:
        import json

        sys.stdout.write(json.dumps(answer))
        sys.stdout.flush()
    return 0


def _handled(desk: Desk | None, place: AgentPlace | None, said: Said) -> Answered | None:
    from jobwire.hooks.handling import between_jobs, handle

    if desk is not None:
        return handle(desk, said)
    return between_jobs(place.home, place.agent, said) if place is not None else None


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


if __name__ == "__main__":
    sys.exit(main())
