"""The arithmetic of docs/scaling.md, from one laptop to a hundred million jobs a day, from bench/results.

    python bench/scaling.py            print the tables
    python bench/scaling.py --write    and put them into docs/scaling.md (`make bench` does)

Nothing is measured here, and what comes out is a calculation: rates divided by rates.
"""

import argparse
import json
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "scaling.md"
BEGIN = "<!-- figures of `make bench`: written by the command, do not edit -->"
END = "<!-- end of the figures -->"
JOBS_A_DAY = (1_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
EVENTS_A_JOB = 10
# As metrics_bench.py names the catch-up that the arithmetic takes.
ACTIVE = "100,000 active"
# The busiest hour against the day's mean.
PEAK = 10
_DAY_SECONDS = 86_400
_GB = 1e9
# A shard or a core that is always busy has no room for a backlog.
_FILL = 0.5


class Measured(NamedTuple):
    """What one process did in the benchmarks, in events a second unless named otherwise."""

    recorder: float
    recorder_keyed: float
    bytes_an_event: float
    catch_up: dict[str, dict[str, float]]
    spark: float
    plain: float


def measured(results: Path) -> Measured:
    """Read the benchmarks' results. Raises OSError or KeyError where one is missing."""

    def read(name: str) -> Any:
        return json.loads((results / f"{name}.json").read_text(encoding="utf-8"))

    durability, metrics = read("durability"), read("metrics")
    catch_up = next(value for key, value in metrics.items() if key.startswith("catch-up"))
    return Measured(
        recorder=durability["events_a_second"]["100"]["journal"],
        recorder_keyed=durability["events_a_second"]["100"]["recorder + fold"],
        bytes_an_event=durability["memory"][-1]["bytes_per_event"],
        catch_up=catch_up,
        spark=catch_up[f"{ACTIVE}, 1 shards, 2 processors"]["rows/s"],
        plain=catch_up[f"{ACTIVE}, plain loop"]["rows/s"],
    )


def lines(found: Measured) -> Iterator[str]:
    """Yield the section of the document."""
    yield (
        "Measured, one process each, events a second (durability: batches of 100; metrics: catch-up in "
        "steady state, by how many jobs are active at once):"
    )
    yield ""
    yield "| what | events/s | command |"
    yield "|---|---:|---|"
    durability, metrics = '`make bench ARGS="durability"`', '`make bench ARGS="metrics"`'
    yield f"| journal alone, a flush a batch | {found.recorder:,.0f} | {durability} |"
    keyed = f"{found.recorder_keyed:,.0f}"
    yield f"| recorder with keys: admission, journal, fold of the record | {keyed} | {durability} |"
    for way, figures in found.catch_up.items():
        loop = "plain" in way
        name = "one plain Python loop, the same tables" if loop else "Spark, journal to tables"
        yield f"| {name}: {way.removesuffix(', plain loop')} | {figures['rows/s']:,.0f} | {metrics} |"
    yield ""
    yield (
        f"Calculated from these, with {EVENTS_A_JOB} events a job, {found.bytes_an_event:,.0f} bytes an "
        f"event in the journal, and a busiest hour of {PEAK} times the mean (recorders at most {_FILL:.0%} "
        f"busy then; Spark and the loop with {ACTIVE} jobs, one shard):"
    )
    yield ""
    yield (
        "| jobs a day | events/s, mean | events/s, peak | journal GB a day | recorders with keys | "
        "Spark's time for a day's events, two cores | the plain loop's |"
    )
    yield "|---:|---:|---:|---:|---:|---:|---:|"
    for jobs in JOBS_A_DAY:
        events = jobs * EVENTS_A_JOB
        mean = events / _DAY_SECONDS
        recorders = ceil(mean * PEAK / (found.recorder_keyed * _FILL))
        size = events * found.bytes_an_event / _GB
        yield (
            f"| {jobs:,} | {_short(mean)} | {_short(mean * PEAK)} | {_short(size)} | "
            f"{recorders:,} | {_time(events / found.spark)} | {_time(events / found.plain)} |"
        )


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def _time(seconds: float) -> str:
    for name, size in (("d", _DAY_SECONDS), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.1f} s"


def written(document: str, section: str) -> str:
    """Return the document with the section between its two marks. Raises ValueError without them."""
    head, begin, rest = document.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{TARGET} has no place for the figures")
    return f"{head}{BEGIN}\n{section}\n{END}{tail}"


def main() -> int:
    """Print, and write where that was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="into docs/scaling.md")
    args = parser.parse_args()
    section = "\n".join(lines(measured(ROOT / "bench" / "results")))
    if args.write:
        TARGET.write_text(written(TARGET.read_text(encoding="utf-8"), section), encoding="utf-8")
        print(f"wrote {TARGET.relative_to(ROOT)}")
    else:
        print(section)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
