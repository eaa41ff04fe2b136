"""The storm: kill -9 of anything at random, while jobs are at work; nothing may be lost or doubled.

    python tests/faults/storm/run.py                              one storm of the short form
    python tests/faults/storm/run.py --seed 42                    the storm of this seed again
    python tests/faults/storm/run.py --jobs 200 --events 4000 --seeds 10 --write docs/reliability.md

Starts Mosquitto, the registry process, subscribers and publishers as real processes and kills only
those. As root it runs in two network namespaces of its own, so that the network between registry and
remote workers can be cut. Exit code 0 if every promise was kept.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import SystemRandom

ROOT = Path(__file__).resolve().parents[3]
# Run as a script: the folder of the tests' own modules is not on the path.
sys.path.insert(0, str(ROOT))

from tests.faults.storm import hosts as two_hosts  # noqa: E402 - needs the path above
from tests.faults.storm.hosts import Hosts  # noqa: E402 - as above
from tests.faults.storm.plan import Plan, make_plan  # noqa: E402 - as above
from tests.faults.storm.report import around_section, table, to_json, write_section  # noqa: E402 - as above
from tests.faults.storm.storm import Result, Storm  # noqa: E402 - as above

SEED_VARIABLE = "JOBWIRE_STORM_SEED"
_INSIDE = "JOBWIRE_STORM_HOSTS"
_ONE_HOST_NOTE = "One host: nothing was cut."


def main() -> int:
    """Run the storms; return 1 where a promise was broken."""
    args = parser().parse_args()
    if args.write is not None:
        try:
            around_section(Path(args.write))  # known before an hour of storms, not after it
        except ValueError as error:
            parser().error(str(error))
    missing = "" if args.one_host else two_hosts.available()
    if not (missing or args.one_host) and _INSIDE not in os.environ:
        return _inside_namespaces()
    hosts = Hosts(*os.environ[_INSIDE].split(",")) if _INSIDE in os.environ else None
    if missing:
        _say(f"note: {missing}")
    for number in (signal.SIGINT, signal.SIGTERM):
        # Also where a shell started this in the background, with SIGINT ignored: everything is ended.
        signal.signal(number, signal.default_int_handler)
    results: list[Result] = []
    for seed in _seeds(args):
        results.append(_storm(args, seed, hosts))
        _keep(args, results, hosts)
    _say(table(results))
    return 0 if all(result.good for result in results) else 1


def _keep(args: argparse.Namespace, results: list[Result], hosts: Hosts | None) -> None:
    """Write what is known so far: a run of an hour that is ended early has not been for nothing."""
    if args.json is not None:
        text = json.dumps([to_json(result) for result in results], indent=1)
        Path(args.json).write_text(text + "\n")
    if args.write is not None:
        command = told_command(args, [result.plan.seed for result in results])
        write_section(Path(args.write), results, command, [] if hosts else [_ONE_HOST_NOTE])


def told_command(args: argparse.Namespace, seeds: Sequence[int]) -> str:
    """Return the command that repeats these storms: what defines them, and not where its files went.

    That of a run that was ended early names the storms that there were.
    """
    words = [f"--{name} {getattr(args, name)}" for name in ("jobs", "events", "slots")]
    words += [f"--seed {seeds[0]}", f"--seeds {len(seeds)}"]
    if args.one_host:
        words.append("--one-host")
    return f"python tests/faults/storm/run.py {' '.join(words)}"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add = made.add_argument
    add("--jobs", type=int, default=12)
    add("--events", type=int, default=150, help="of all jobs together")
    add("--slots", type=int, default=8, help="jobs at work at a time (default: %(default)s)")
    add(
        "--seed",
        type=int,
        default=os.environ.get(SEED_VARIABLE),
        help=f"default: ${SEED_VARIABLE} or a new one",
    )
    add("--seeds", type=int, default=1, metavar="N", help="so many storms, from --seed on")
    add("--limit", type=float, default=1800.0, metavar="S", help="a job that takes longer is stuck")
    add("--one-host", action="store_true", help="no namespaces, even as root")
    add("--json", metavar="FILE", help="write every figure there")
    add("--write", metavar="FILE", help="write the table into this document, between its marks")
    add("--keep", metavar="DIR", help="keep the files of a storm there, for examination")
    return made


def _inside_namespaces() -> int:
    """Make the two hosts, run this command on the registry's one, and remove them."""
    hosts = two_hosts.create()
    try:
        environment = os.environ | {_INSIDE: ",".join(hosts)}
        command = ["ip", "netns", "exec", hosts.registry, sys.executable, *sys.argv]
        with subprocess.Popen(command, env=environment) as inner:
            # Ctrl-C reaches both; SIGTERM only this one.
            signal.signal(signal.SIGTERM, lambda number, _frame: inner.send_signal(number))
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            return inner.wait()
    finally:
        two_hosts.remove(hosts)


def _seeds(args: argparse.Namespace) -> range:
    first = int(args.seed) if args.seed is not None else SystemRandom().randrange(1_000_000)
    return range(first, first + args.seeds)


def _storm(args: argparse.Namespace, seed: int, hosts: Hosts | None) -> Result:
    plan = make_plan(seed, jobs=args.jobs, events=args.events, network=hosts is not None)
    _say(f"seed {seed}: {args.jobs} jobs, {plan.events} events, {len(plan.strikes)} strikes planned")
    with _directory(args.keep, plan) as directory:
        storm = Storm(plan, directory=directory, hosts=hosts, slots=args.slots, limit_seconds=args.limit)
        result = storm.run()
    _tell(result)
    return result


def _tell(result: Result) -> None:
    for name, found in result.breaches._asdict().items():
        for sentence in found:
            _say(f"  {name}: {sentence}")
    for sentence in result.failures:
        _say(f"  failure: {sentence}")
    verdict = "every promise kept" if result.good else f"BROKEN; repeat it with --seed {result.plan.seed}"
    _say(f"seed {result.plan.seed}: {verdict} after {result.seconds:.0f} s")


@contextmanager
def _directory(keep: str | None, plan: Plan) -> Iterator[Path]:
    if keep is not None:
        directory = Path(keep) / f"seed-{plan.seed}"
        directory.mkdir(mode=0o700, parents=True)
        yield directory.resolve()
        return
    directory = Path(tempfile.mkdtemp(prefix="jobwire-storm-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("storm: ended early; everything it started has ended")
