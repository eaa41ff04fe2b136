"""`--help` of each command against `python -c pass`: what somebody waits for who only asks.

python bench/help_bench.py [ROUNDS]
"""

import json
import os
import platform
import statistics
import sys
from pathlib import Path

from publish_bench import Sample, run  # type: ignore[import-not-found]  # Python finds it beside this script

from jobwire.cli.main import COMMANDS

RESULTS = Path(__file__).resolve().parent / "results" / "help.json"
ROUNDS = 15
BASE, TARGET = "python -c pass", 3.0


def ratios(samples: list[Sample], base: list[Sample]) -> dict[str, float]:
    """Return what a command costs, and the ratios of its turns to `python -c pass` in the same turns."""
    walls = [one.wall / other.wall for one, other in zip(samples, base, strict=True)]
    cpus = [one.cpu / other.cpu for one, other in zip(samples, base, strict=True)]
    return {
        "wall_median_ms": round(statistics.median(one.wall for one in samples), 1),
        "cpu_median_ms": round(statistics.median(one.cpu for one in samples), 1),
        "wall_ratio_median": round(statistics.median(walls), 2),
        "cpu_ratio_median": round(statistics.median(cpus), 2),
        "cpu_ratio_worst": round(max(cpus), 2),
    }


def main() -> int:
    """Measure, print, write the results."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    jobwire = Path(sys.executable).with_name("jobwire")
    commands = {BASE: [sys.executable, "-c", "pass"], "jobwire --help": [str(jobwire), "--help"]}
    commands |= {f"jobwire {name} --help": [str(jobwire), name, "--help"] for name in COMMANDS}
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    load = os.getloadavg()[0]
    samples: dict[str, list[Sample]] = {name: [] for name in commands}
    for turn in range(rounds + 1):
        for name, command in commands.items():
            sample = run(command, environ)
            if turn:
                samples[name].append(sample)
    figures = {name: ratios(found, samples[BASE]) for name, found in samples.items()}
    slowest = max(row["cpu_ratio_median"] for row in figures.values())
    for name, row in figures.items():
        print(f"{name:32}{row['cpu_median_ms']:>8.1f} ms of processor time{row['cpu_ratio_median']:>7.2f}x")
    print(f"target: at most {TARGET:g}x {BASE} (here the slowest {slowest:g}x)")
    body = {
        "what": f"`--help` of each command against `{BASE}`; processes in turns, ratios turn by turn",
        "rounds": rounds,
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "load_average_before": round(load, 1),
        "load_average_after": round(os.getloadavg()[0], 1),
        "target": TARGET,
        "figures": figures,
    }
    RESULTS.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
