r"""What the registry process does for `publish_event`: it keeps the event, signs it, and sends it.

The form is that of `delivery.call`; both ends know the event by 32 hexadecimal digits (`event_log.Once`), so
whatever becomes of either, it is kept once.

    given    those digits and the words of the command line, NUL between them
    answer   "EXIT-CODE SIZE\n", what goes to stdout (SIZE bytes), and what goes to stderr
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from jobwire.core.boundary import in_words
from jobwire.core.clock import SystemClock
from jobwire.core.errors import JobwireError
from jobwire.core.exit_codes import ExitCode
from jobwire.publisher.command import PROG, NotHereError, say
from jobwire.publisher.inputs import STDIN
from jobwire.publisher.usual_words import read_usual, ticket_of
from jobwire.registry.event_log import AbandonedError, Once

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from jobwire.registry.call_service import Work

_DIGITS = 32


class ServedPublishes:
    """Publishes for workers in a home: the `Callee` of `publish_event`."""

    def __init__(self, home: Path) -> None:
        self._home = str(home.resolve())

    def take(self, name: str, environ: dict[str, str], given: bytes) -> Work | None:  # noqa: ARG002 - see `Callee`
        """See `Callee.take`; what needs the worker's own files, stdin or connection is its own."""
        call, *words = given.decode("utf-8", "surrogateescape").split("\0")
        args = read_usual(words)
        if args is None or args.event is None or args.direct or args.data_json or args.detail == STDIN:
            return None
        if ticket_of(args, environ) or len(call) != _DIGITS or not set(call) <= set("0123456789abcdef"):
            return None
        args.home = self._home
        return lambda waits: _published(args, environ, Once(call, waits))


def _published(args: argparse.Namespace, environ: dict[str, str], once: Once) -> bytes:
    """Return the answer; nothing where the worker has to go on by itself."""
    warned: list[str] = []
    line, failure = "", None
    try:
        published = say(args, environ, SystemClock(), warn=warned.append, once=once, connects=False)
    except (NotHereError, AbandonedError):
        return b""
    except JobwireError as error:
        failure = error
    else:
        line, failure = json.dumps(published.to_json()) + "\n", published.failure
    code = failure.exit_code if failure else ExitCode.OK
    words = "".join(f"{PROG}: warning: {sentence}\n" for sentence in warned)
    if failure:
        words += in_words(failure, prog=PROG, as_json=args.json)
    out = line.encode("utf-8", "backslashreplace")
    return b"%d %d\n" % (code, len(out)) + out + words.encode("utf-8", "backslashreplace")
