"""`make bench`: every benchmark in turn; each prints a table and writes bench/results/NAME.json.

From all results docs/performance.md is written, and the figures in docs/scaling.md.

make bench                      all of them
make bench ARGS="publish"       those named
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# What one name stands for, where it is measured by several.
GROUPS = {"inbox": ("inbox", "inbox_waiting")}


def main() -> int:
    """Run the benchmarks named in argv, or all; return 1 if one of them failed."""
    known = {path.stem.removesuffix("_bench"): path for path in sorted(HERE.glob("*_bench.py"))}
    named = sys.argv[1:] or list(known)
    wanted = [part for name in named for part in GROUPS.get(name, (name,))]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"bench: no benchmark {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 30
    failed = []
    for name in wanted:
        print(f"\n== {name}", flush=True)
        if subprocess.run([sys.executable, str(known[name])], check=False).returncode != 0:
            failed.append(name)
    subprocess.run([sys.executable, str(HERE / "report.py")], check=True)
    subprocess.run([sys.executable, str(HERE / "scaling.py"), "--write"], check=True)
    if failed:
        print(f"bench: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
