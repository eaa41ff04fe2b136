"""Becomes a command whose standard input is a file: `python -m jobwire.sessions.fed FILE COMMAND ...`."""

import os
import sys
from signal import SIG_DFL, SIGPIPE, SIGXFSZ, signal

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


def main() -> None:
    """Become the command; the exit code of a shell where that cannot be."""
    path, *words = sys.argv[1:]
    for number in SIGPIPE, SIGXFSZ:
        signal(number, SIG_DFL)
    try:
        descriptor = os.open(path, os.O_RDONLY)
        os.dup2(descriptor, 0)
        os.execvp(words[0], words)  # noqa: S606 - this is what it is for
    except OSError as error:
        sys.stderr.write(f"jobwire: {words[0]} cannot be started: {error.strerror}\n")
        sys.exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE)


if __name__ == "__main__":
    main()
