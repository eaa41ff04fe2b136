"""`jobwire lock ...`: who may touch this file, and who waits for whom."""

from __future__ import annotations

from jobwire.coordination.verb_options import RUN, VerbOption, opt, timeout
from jobwire.coordination.verbs import Row, VerbTable, verbs_of
from jobwire.core.argument_types import number, whole
from jobwire.core.bounds import MAX_SECONDS

_WHERE = (
    RUN,
    opt("--root", metavar="DIR", help="the folder that the run works on (default: that of the home)"),
)


def _paths(nargs: str = "+") -> tuple[VerbOption, ...]:
    words = "a file, a folder with all below it, or name:X"
    return opt("paths", nargs=nargs, metavar="PATH", help=words), *_WHERE


def _lease(wait: float, words: str) -> tuple[VerbOption, ...]:
    return (
        opt("--shared", action="store_true", help="together with others who share"),
        opt("--ttl", type=number(MAX_SECONDS, zero=False), default=1800.0, metavar="S", help="default: 1800"),
        opt("--wait", type=number(MAX_SECONDS), default=wait, metavar="S", help=words),
        opt("--job", metavar="ID", help="end with this job at the latest (default: $JOBWIRE_JOB)"),
    )


_ACQUIRE = (*_paths(), *_lease(0.0, "wait so long for one's turn (default: do not wait)"))
_HELD = (
    *_paths("*"),
    opt("--all", action="store_true", help="all that I hold in this run"),
    opt("--token", type=whole(1, 2**53 - 1), metavar="N", help="of the lock, as `acquire` printed it"),
)
_CHECK = (*_paths(), opt("--shared", action="store_true", help="would sharing be possible?"))
_WAIT = (*_paths(), timeout(3600.0, "default: 3600"))
_BREAK = (
    opt("path", metavar="PATH"),
    *_WHERE,
    opt("--reason", default="", metavar="TEXT", help="ask for it"),
    opt("--confirm", action="store_true", help="do it: somebody else asked"),
)
_RUN = (
    # All words behind the first path: argparse would drop the mark between paths and command.
    opt("words", nargs="...", metavar="PATH... -- COMMAND", help="files, then a command"),
    *_WHERE,
    *_lease(3600.0, "default: an hour"),
)
_LIST = (opt("--run", dest="run_id", metavar="NAME", help="only of this run (default: all)"),)
_TABLE: tuple[Row, ...] = (
    ("acquire", "take locks, all of them or none", "src/app.py --wait 60", _ACQUIRE),
    ("renew", "keep them for as long again as they were granted", "--all", _HELD),
    ("release", "give them back", "--all", _HELD),
    ("list", "what is held, and who waits", "", _LIST),
    ("check", "20 where somebody else holds one of them", "src/app.py", _CHECK),
    (
        "wait",
        "wait until nobody else holds them, taking nothing",
        "src/app.py",
        _WAIT,
    ),
    (
        "break",
        "end somebody's lock: one agent asks, another confirms",
        'src/app.py --reason "gone home"',
        _BREAK,
    ),
    ("run", "run a command while holding locks", "src/app.py -- make format", _RUN),
    (
        "hook",
        "print a git pre-commit hook that refuses what others hold",
        "> .git/hooks/pre-commit",
        (),
    ),
    ("deadlocks", "circles of agents that wait for each other", "", _LIST),
)
_AT_HOME = {"locks.actions:lock_{}": "acquire wait run hook"}
VERBS = verbs_of("jobwire lock", _TABLE, runs="verb:lock-{}", but=_AT_HOME)
LOCK = VerbTable("lock", "File locks: leases on paths and names, first come, first served.", VERBS)
