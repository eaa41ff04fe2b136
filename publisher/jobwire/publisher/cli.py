"""Where the program `publish_event` begins and ends: a worker starts it for each thing that it says.

Its start is what it costs. So it loads what handing one event over needs and nothing else (a test counts),
and what is rarer when it comes to that: argparse, the way to a broker, tickets, a flush.
"""

import gc
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run `publish_event` and return its exit code; as a program of its own (no `argv`) end the process."""
    if argv is None:
        gc.disable()  # for a tenth of a second there is no garbage worth looking for: 5 ms of 60
    from jobwire.core.boundary import leave, run_command
    from jobwire.publisher.usual_words import home_need, read_usual

    words = sys.argv[1:] if argv is None else argv
    args = read_usual(words) or _parsed(words)
    args.home_need = home_need
    code = run_command(_body, args, prog="publish_event", as_json=args.json)
    if argv is None:
        leave(code)
    return code


def _parsed(words: "Sequence[str]") -> "Namespace":
    from jobwire.publisher.options import command_parser

    return command_parser().parse_args(words)


def _body(args: "Namespace") -> int:
    from jobwire.publisher.command import run
    from jobwire.storage.home import settled

    return settled(run)(args)


if __name__ == "__main__":
    sys.exit(main())
