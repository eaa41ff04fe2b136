"""Where the program `publish_event` begins and ends: a worker starts it for each thing that it says.

Its start is what it costs. So a registry process that looks after the home is asked first to do it all
(`served.py`). Else it loads what handing one event over needs and nothing else (a test counts), and what is
rarer when it comes to that: argparse, the way to a broker, tickets, a flush.
"""

import gc
import os
import sys
from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

# What its calls of the registry process are known by.
SERVED_NAME = "publish"
_PROG = "publish_event"
# Longer than it waits for the broker (`delivery.handover`) and a terminal event's confirmation.
_ANSWER_SECONDS = 12.0


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run `publish_event` and return its exit code; as a program of its own (no `argv`) end the process."""
    words, event = sys.argv[1:] if argv is None else argv, ""
    if argv is None:
        gc.disable()  # for a tenth of a second there is no garbage worth looking for: 5 ms of 60
        event, answer = _asked(words, os.environ)
        if answer is not None:
            _end_with(answer, as_json="--json" in words)
    from jobwire.core.boundary import leave, run_command
    from jobwire.publisher.usual_words import home_need, read_usual

    args = read_usual(words) or _parsed(words)
    args.home_need, args.call = home_need, event
    code = run_command(_body, args, prog=_PROG, as_json=args.json)
    if argv is None:
        leave(code)
    return code


def _asked(words: "Sequence[str]", environ: "Mapping[str, str]") -> tuple[str, bytes | None]:
    """Have the registry process publish; return its answer, None where it is to be done here.

    With None also what the event is known by that may have been kept; empty where it was not.
    """
    from jobwire.delivery.call import LostCallError, call

    home = environ.get("JOBWIRE_HOME", "")
    for name, value in pairwise(words):
        home = value if name == "--home" else home
    event = os.urandom(16).hex()
    given = os.fsencode("\0".join([event, *words]))
    try:
        answer = call(home, SERVED_NAME, environ, given, answer_seconds=_ANSWER_SECONDS)
    except LostCallError:
        return event, None
    return "", answer


def _end_with(answer: bytes, *, as_json: bool) -> None:
    """Say what the registry process answered, and end with its exit code."""
    head, _, said = answer.partition(b"\n")
    code, size = map(int, head.split())
    try:
        for stream, part in ((sys.stdout, said[:size]), (sys.stderr, said[size:])):
            stream.buffer.write(part)
            stream.flush()
    except OSError as error:
        _end_unheard(error, as_json=as_json)
    os._exit(code)


def _end_unheard(error: OSError, *, as_json: bool) -> None:
    """End as every command does that cannot say what it has to say."""
    from types import SimpleNamespace

    from jobwire.core.boundary import leave, run_command

    def body(_: object) -> int:
        raise error

    code = run_command(body, SimpleNamespace(), prog=_PROG, as_json=as_json)  # type: ignore[arg-type]  # not read
    leave(code)
    sys.exit(code)


def _parsed(words: "Sequence[str]") -> "Namespace":
    from jobwire.publisher.options import command_parser

    return command_parser().parse_args(words)


def _body(args: "Namespace") -> int:
    from jobwire.publisher.command import run
    from jobwire.storage.home import settled

    return settled(run)(args)


if __name__ == "__main__":
    sys.exit(main())
