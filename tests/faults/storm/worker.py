"""A worker written in Python, as a process of its own: says the rest of a job's events and ends.

worker.py --said N --events M --ending completed [--home DIR --job ID | --ticket FILE] [--direct]

Prints one JSON line for each event once `Publisher` has returned. Started again after a kill it goes on
after `--said`, the last event that is known to be the job's.
"""

import argparse
import json
import logging
import sys

from jobwire.core.errors import StoppedError
from jobwire.publisher import Publisher

STOPPED = 3


def main() -> int:
    """Say what is left."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--home")
    parser.add_argument("--job")
    parser.add_argument("--ticket")
    parser.add_argument("--direct", action="store_true")
    parser.add_argument("--said", type=int, required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--ending", required=True)
    args = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    with Publisher(args.job, home=args.home, ticket=args.ticket, direct=args.direct) as publisher:
        for seq in range(args.said + 1, args.events + 1):
            word = word_of(seq, args.events, args.ending)
            try:
                published = publisher.say(word, f"step {seq} of {args.events}", {"step": seq})
            except StoppedError:
                return STOPPED
            sys.stdout.write(json.dumps(published.to_json()) + "\n")
            sys.stdout.flush()
    return 0


def word_of(seq: int, events: int, ending: str) -> str:
    """Return the event at `seq`; the same for every kind of worker."""
    if seq == 1:
        return "started"
    return ending if seq == events and ending != "cancelled" else "progress"


if __name__ == "__main__":
    sys.exit(main())
