"""The metrics pipeline on a Spark cluster: a master and workers, all of them processes on this machine.

    make cluster                             a generated journal of about 200,000 messages
    make cluster ARGS="--home .hermes"       the journal of a home; its own tables are not touched
    make cluster ARGS="--inline --json"      bytes travel in the tasks; the result as JSON

The job goes there by spark-submit, as on a cluster of many hosts (docs/scaling.md): first with one worker,
then with two, each cluster held to as many processors as it has workers (sched_setaffinity(2)), driver and
master included. The tables are compared with those of a plain loop. Ctrl-C ends the batch in hand, the job
and the cluster.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jobwire.core.clock import SystemClock
from jobwire.core.errors import JobwireError
from jobwire.core.topics import Topics
from jobwire.journal.reader import JournalReader
from jobwire.journal.writer import JournalWriter
from jobwire.metrics import job
from jobwire.metrics.database import open_database
from jobwire.metrics.java import find_java
from jobwire.metrics.session import java_options
from jobwire.metrics.settings import load_metrics_settings
from jobwire.metrics.shards import AllShards
from jobwire.metrics.sink import MetricsSink
from jobwire.testing.plain_consumer import PlainConsumer
from jobwire.testing.rehearsal import Rehearsal
from jobwire.testing.standalone import QUICK_START, StandaloneCluster, descendants

_EVENTS_A_JOB = 11
_WRITE_ROWS = 500
_READ_ROWS = 20_000
_END_SECONDS = 60.0
INTERRUPTED = 130


class Show:
    """Says what happens, a line each, or nothing where JSON is wanted."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._since = time.monotonic()

    def __call__(self, name: str, text: str) -> None:
        """Print one line with the seconds since the start."""
        if not self._quiet:
            print(f"{time.monotonic() - self._since:6.1f} s  {name:<9} {text}", flush=True)


def generate(directory: Path, messages: int) -> None:
    """Write a journal of about that many messages of a scripted fleet."""
    with JournalWriter(directory, clock=SystemClock()) as writer:
        part = []
        for entry in Rehearsal(seed=5, jobs=max(1, messages // _EVENTS_A_JOB), active=100):
            part.append(entry)
            if len(part) == _WRITE_ROWS:
                writer.append(part)
                part = []
        if part:
            writer.append(part)


def run_job(
    cluster: StandaloneCluster, folder: Path, words: Sequence[str], show: Show, *, jvm: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Submit the job and follow it; return its last report and what was seen of it.

    `jvm` are flags for driver and executors.
    """
    home = folder / "home"
    options = {
        "spark.driver.extraJavaOptions": f"{java_options(folder / 'spark.log')} {jvm}",
        "spark.executor.extraJavaOptions": jvm,
    }
    command = cluster.submit_command(
        Path(str(job.__file__)), ["once", "--home", str(home), "--history", "", *words], options=options
    )
    seen: dict[str, Any] = {"batches": [], "executors": []}
    begin = time.monotonic()
    last: dict[str, Any] = {}
    with submitted(command, folder, cluster) as process:
        for line in process.stdout or ():
            with contextlib.suppress(ValueError):
                last = json.loads(line)
                follow(last, seen, cluster, show)
        process.wait()
    seen["seconds"] = round(time.monotonic() - begin, 1)
    return last, seen


@contextlib.contextmanager
def submitted(
    command: Sequence[str], folder: Path, cluster: StandaloneCluster
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the command; when the block is left early, let the batch in hand finish, then end it."""
    with (folder / "driver.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=cluster.environment(),
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough
            # spark-submit is a JVM that waits for the Python driver: only that one can end in order.
            for pid in descendants(process.pid, str(job.__file__)) or [process.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdout is not None:
            process.stdout.close()


def follow(report: dict[str, Any], seen: dict[str, Any], cluster: StandaloneCluster, show: Show) -> None:
    """Note and show one report of the job."""
    match report.get("kind"):
        case "ready":
            show("job", f"Spark {report['spark']} is up, the query starts")
        case "note":
            show("job", report["text"])
        case "batch":
            seen["batches"].append((report["rows"], report["duration_ms"]))
            seen["executors"] = sorted({*seen["executors"], *cluster.executors()})
            took = report["duration_ms"]
            show(
                "batch",
                f"{report['batch']}: {report['rows']:,} rows in {took:,} ms, {report['backlog']:,} left",
            )


def tables_of_a_plain_loop(journal: Path, folder: Path, topic_root: str, end: int) -> dict[str, str]:
    """Return the digests of the tables that one process and one loop give, up to the offset `end`."""
    with open_tables(folder / "plain.db") as sink:
        consumer = PlainConsumer(journal, sink=sink, topics=Topics(topic_root))
        while consumer.offset < end:  # a living journal grows meanwhile
            consumer.step(max_rows=min(_READ_ROWS, end - consumer.offset))
        consumer.close()
        return sink.digests()


def open_tables(path: Path) -> MetricsSink:
    """Open the tables at `path`; sessions are left out."""
    sink = MetricsSink(open_database(str(path)), clock=SystemClock())
    sink.prepare()
    return sink


def steady_rate(batches: Sequence[tuple[int, int]]) -> int | None:
    """Return rows a second from (rows, milliseconds) without the first batch, which pays for the start."""
    rows, took_ms = (sum(column) for column in zip(*batches[1:], strict=True)) if batches[1:] else (0, 0)
    return round(rows * 1000 / took_ms) if took_ms else None


@contextlib.contextmanager
def held_to(processors: int) -> Iterator[None]:
    """Hold this process and whatever it starts to so many processors for the block, where there are more."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:processors])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def perform(args: argparse.Namespace, folder: Path, show: Show) -> list[dict[str, Any]]:
    """Do all of it and return what happened, cluster by cluster. Raises JobwireError."""
    topic_root = load_metrics_settings(Path(args.home or folder), {}, {}).topic_root
    journal = (Path(args.home).absolute() if args.home else folder) / "journal"
    if not args.home:
        generate(journal, args.messages)
    with JournalReader(journal) as reader:
        rows = reader.durable_offset - reader.first_offset
    show("journal", f"{rows:,} messages in {journal}" if args.home else f"{rows:,} messages, generated")
    done = []
    for number, count in enumerate(args.workers):
        place = folder / f"{number}"
        # A home of its own: another run's lock, checkpoint and place in the journal stay untouched.
        (place / "home").mkdir(parents=True)
        (place / "home" / "jobwire.toml").write_text(
            f'[broker]\ntopic_root = {json.dumps(topic_root)}\n[metrics]\nconsumer = ""\n'
        )
        with held_to(count):
            done.append(on_cluster(args, count, place, journal, show))
        end = done[-1]["end"]
        plain = tables_of_a_plain_loop(journal, place, topic_root, end)
        done[-1]["equal_to_a_plain_loop"] = done[-1].pop("digests") == plain
    return done


def on_cluster(
    args: argparse.Namespace, count: int, folder: Path, journal: Path, show: Show
) -> dict[str, Any]:
    """Run the job on a cluster of so many workers, with a shard for each; return what was seen."""
    clock = SystemClock()
    words = ["--journal", str(journal), "--max-rows", str(args.max_rows), *(["--inline"] * args.inline)]
    words += ["--shards", str(count)]
    with StandaloneCluster(folder / "cluster", clock=clock, workers=count) as cluster:
        workers = cluster.workers()
        show(
            "cluster", f"{cluster.url}, {len(workers)} workers with {sum(w['cores'] for w in workers)} cores"
        )
        last, seen = run_job(cluster, folder, words, show, jvm="" if args.home else QUICK_START)
    if last.get("exit_code") != 0:
        raise JobwireError(
            str(last.get("error") or f"the job said nothing: {tail(folder / 'driver.log')}"),
            hint=str(last.get("hint") or "is there memory for a master, a driver, workers and executors?"),
        )
    tables = AllShards(str(folder / "home" / "metrics" / "metrics.db"), clock=clock)
    places = list(tables.progress().values())
    return {
        "workers": len(workers),
        "cores": sum(worker["cores"] for worker in workers),
        **seen,
        "batches": len(seen["batches"]),
        "rows_per_second": steady_rate(seen["batches"]),
        "rows": sum(place.next_offset - place.first_offset for place in places),
        "end": max((place.next_offset for place in places), default=0),
        "digests": tables.digests(),
    }


def tail(log: Path) -> str:
    """Return the last line of a log."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "nothing in its log"


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--home", metavar="DIR", help="read this home's journal (default: a generated one)")
    parser.add_argument("--messages", type=int, default=200_000, metavar="N", help="to generate (200000)")
    parser.add_argument(
        "--workers", type=int, nargs="+", default=[1, 2], metavar="N", help="worker processes of a core (1 2)"
    )
    parser.add_argument("--max-rows", type=int, default=50_000, metavar="N", help="rows a batch (50000)")
    parser.add_argument("--inline", action="store_true", help="send the journal's bytes with the tasks")
    parser.add_argument("--json", action="store_true", help="JSON on standard output, nothing else")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Show the cluster at work; return the exit code: 130 after Ctrl-C, 1 for different tables."""
    args = arguments(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    show = Show(quiet=args.json)
    try:
        find_java(os.environ)
        with tempfile.TemporaryDirectory(prefix="jobwire-cluster-") as folder:
            done = perform(args, Path(folder), show)
    except JobwireError as error:
        print(f"cluster: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print("cluster: interrupted; job, workers and master are ended", file=sys.stderr)
        return INTERRUPTED
    if args.json:
        print(json.dumps(done))
    for one in done:
        rate = f", {one['rows_per_second']:,} rows/s after the first" if one["rows_per_second"] else ""
        took = f"{one['batches']} batches, {one['seconds']} s with Spark's start{rate}"
        show("workers", f"{one['workers']}: {one['rows']:,} rows in {took}")
        executors = ", ".join(map(str, one["executors"]))
        show("executors", f"{len(one['executors'])} on {one['workers']} workers: processes {executors}")
        show("tables", "equal to those of a plain loop" if one["equal_to_a_plain_loop"] else "DIFFERENT")
    return 0 if all(one["equal_to_a_plain_loop"] for one in done) else 1


if __name__ == "__main__":
    sys.exit(main())
