"""The figures of storms: one JSON object each, one table for all, and their place in a document."""

import os
import platform
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from tests.faults.storm.plan import Fault
from tests.faults.storm.storm import Result

BEGIN = "<!-- figures of `make faults`: written by the command, do not edit -->"
END = "<!-- end of the figures -->"
_KILLS = (Fault.BROKER, Fault.WIPE, Fault.REGISTRY, Fault.PUBLISHER, Fault.SUBSCRIBER)
_FAULTS = (*_KILLS, Fault.FREEZE, Fault.NETWORK)


def to_json(result: Result) -> dict[str, object]:
    """Return one storm as a JSON object."""
    breaches = result.breaches._asdict()
    return {
        "seed": result.plan.seed,
        "good": result.good,
        "jobs": len(result.plan.jobs),
        "events": result.plan.events,
        "acknowledged": result.acknowledged,
        "seconds": round(result.seconds, 1),
        "load": round(result.load, 1),
        "journal": dict(result.verdicts),
        "kills": sum(result.struck[fault] for fault in _KILLS),
        "faults": {str(fault): result.struck[fault] for fault in _FAULTS if result.struck[fault]},
        "missed": {str(fault): count for fault, count in result.missed.items()},
        "watchers": len(result.watched),
        "recovery_seconds": {
            str(fault): {"median": _median(values), "longest": round(max(values), 3), "measured": len(values)}
            for fault, values in result.recovery.items()
        },
        "lost": len(breaches["lost"]),
        "doubled": len(breaches["doubled"]),
        "breaches": {name: found for name, found in breaches.items() if found},
        "failures": result.failures,
    }


def table(results: Sequence[Result]) -> str:
    """Return the storms as a Markdown table, one a line, and their recovery times."""
    counted = ["jobs", "events", "kills", "cuts", "lost", "doubled", "late", "verdicts", "wrong", "seconds"]
    heads = ["seed", *counted, "load"]
    figures = [
        (
            result.plan.seed,
            len(result.plan.jobs),
            result.acknowledged,
            sum(result.struck[fault] for fault in _KILLS),
            result.struck[Fault.NETWORK],
            len(result.breaches.lost),
            len(result.breaches.doubled),
            result.late,
            len(result.watched),
            len(result.breaches.verdicts) + len(result.breaches.records) + len(result.breaches.histories),
            round(result.seconds),
            round(result.load, 1),
        )
        for result in results
    ]
    rows: list[Sequence[object]] = list(figures)
    if len(figures) > 1:
        _, *counts, loads = zip(*figures, strict=True)
        rows.append(["all", *(sum(column) for column in counts), round(median(loads), 1)])
    return f"{_markdown(heads, rows)}\n\n{_recovery_table(results)}"


def _recovery_table(results: Sequence[Result]) -> str:
    struck = sum((result.struck for result in results), Counter[Fault]())
    rows: list[Sequence[object]] = []
    for fault in _FAULTS:
        values = sorted(value for result in results for value in result.recovery.get(fault, []))
        if not struck[fault]:
            continue
        figures = [f"{_median(values):.2f} s", f"{values[-1]:.2f} s"] if values else ["-", "-"]
        rows.append([str(fault), struck[fault], *figures])
    return _markdown(["fault", "times", "median to the next event", "longest"], rows)


def write_section(path: Path, results: Sequence[Result], command: str, notes: Iterable[str]) -> None:
    """Put the figures between the marks in the document; raises as `around_section` does."""
    before, after = around_section(path)
    said = "".join(f"{note}\n" for note in notes)
    body = f"\n`{command}` on {_machine()}.\n{said}\n{table(results)}\n\n"
    path.write_text(f"{before}{BEGIN}\n{body}{END}{after}")


def around_section(path: Path) -> tuple[str, str]:
    """Return what stands before and after the figures; raises ValueError where there is no place for them."""
    try:
        text = path.read_text()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} has no place for the figures")
    return before, after


def _machine() -> str:
    answer = subprocess.run(["mosquitto", "-h"], capture_output=True, text=True, check=False)
    broker = answer.stdout.splitlines()[0] if answer.stdout else "mosquitto"
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, {broker}"


def _median(values: Sequence[float]) -> float:
    return round(median(values), 3)


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [heads, ["---:" if i else "---" for i in range(len(heads))], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
