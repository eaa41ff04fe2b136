"""Going on in the background: a process of its own that begins something, says so, and works on alone."""

import json
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from jobwire.core.errors import JobwireError, StorageError, error_of

Body = Callable[[Callable[[], None]], object]


def in_background(body: Body) -> None:
    """Run `body(begun)` in a child, in a session of its own without terminal; return when it calls `begun`.

    Raises what `body` raised before that, as a JobwireError. One thread only (fork(2)). The child never
    returns from here; it outlives this process and its terminal, and holds none of its files.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        _be_the_child(write_end, body)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as answer:
        said = answer.read()
    if not said:
        raise StorageError("the background process ended before it had begun")
    error = json.loads(said)
    if error is not None:
        raise error_of(error)


def _be_the_child(answer: int, body: Body) -> NoReturn:
    begun = False

    def say(error: dict[str, object] | None) -> None:
        nonlocal begun
        if not begun:
            begun = True
            os.write(answer, json.dumps(error).encode())
            os.close(answer)

    try:
        os.setsid()
        _let_go_of_files(answer)
        body(lambda: say(None))
    except JobwireError as error:
        say(error.to_json())
    finally:
        # Not sys.exit: what the caller has still to do at its end is not the child's.
        os._exit(0)


def _let_go_of_files(kept: int) -> None:
    """Close what a shell left open for us, a lock's file for instance: the job must not hold it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
