"""Where the program `publish_event` begins and ends: a worker starts it for each thing that it says.

Its start is what it costs. So it loads what handing one event over needs and nothing else (a test counts),
and what is rarer when it comes to that: argparse, the way to a broker, tickets, a flush.
"""

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run `publish_event` and return its exit code; as a program of its own (no `argv`) end the process."""
    if argv is None:
        gc.disable()  # for a tenth of a second there is no garbage worth looking for: 5 ms of 60
    from jobwire.publisher.command import publish_event  # noqa: PLC0415 - see above

    code = publish_event(sys.argv[1:] if argv is None else argv)
    if argv is None:
        _end(code)
    return code


def _end(code: int) -> None:
    """End the process without taking apart what the system frees anyway: 5 ms of 60."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return  # Python ends as it does, and says so
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
