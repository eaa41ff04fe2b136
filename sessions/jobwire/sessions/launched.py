"""The process of a pane before it becomes the agent: reads what it is told, and executes that."""

import contextlib
import json
import os
import sys
import time
from signal import SIG_DFL, SIGPIPE, SIGXFSZ, signal

_PANE = ("TMUX", "TMUX_PANE", "TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION")
_NOT_FOUND = 127
# Who opens the pane lets go of the file soon, or has been killed.
_HELD_SECONDS = 20.0
_LOOK_SECONDS = 0.003


def main() -> None:
    """Become the agent of the file that is named; the exit code of a shell where that cannot be."""
    path = sys.argv[1]
    until = time.monotonic() + _HELD_SECONDS
    while not os.path.exists(path) and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)
    if not os.path.exists(path):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}.held")
        sys.exit(f"jobwire ended before it could start the agent of {path}")
    with open(path, "rb") as file:
        told = json.load(file)
    own = {name: os.environ[name] for name in _PANE if name in os.environ}
    words = told["command"]
    # The interpreter ignores two signals, which the agent would inherit.
    for number in SIGPIPE, SIGXFSZ:
        signal(number, SIG_DFL)
    try:
        os.chdir(told["directory"])
        environment = {**told["environment"], **own}
        os.environ["PATH"] = environment.get("PATH", os.defpath)
        os.unlink(path)
        os.execvpe(words[0], words, environment)  # noqa: S606 - this is what it is for
    except OSError as error:
        with open(f"{path}.failing", "w", encoding="utf-8") as file:
            file.write(f"{words[0]} cannot be started: {error.strerror}")
        # Whoever finds it finds all of it.
        os.rename(f"{path}.failing", f"{path}.failed")
        sys.exit(_NOT_FOUND)


if __name__ == "__main__":
    main()
