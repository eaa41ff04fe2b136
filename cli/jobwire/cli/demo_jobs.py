"""The three commands that `jobwire demo` delegates: real work, a real failure, a real question.

Each is an ordinary program that knows nothing of MQTT: it prints lines, and `::progress` and
`::permission` lines among them.
"""

import bz2
import hashlib
import lzma
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

_SKIPPED = {
    ".git",
    ".venv",
    "__pycache__",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".pytest_cache",
    "var",
}
_SUFFIXES = {".py", ".md", ".toml", ".yaml", ".json", ".sql", ".conf"}


_METHODS: dict[str, Callable[[bytes], bytes]] = {
    "zlib": lambda content: zlib.compress(content, 9),
    "bzip2": lambda content: bz2.compress(content, 9),
    "xz": lambda content: lzma.compress(content, preset=4),
}


def survey(folder: Path) -> int:
    """Hash the files of a source tree, count their lines, and find which method packs them best."""
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in _SUFFIXES and path.is_file() and not _SKIPPED & set(path.relative_to(folder).parts)
    )
    digest = hashlib.sha256()
    totals: Counter[str] = Counter()
    for number, path in enumerate(files, start=1):
        content = path.read_bytes()
        digest.update(content)
        totals.update(lines=content.count(b"\n"), bytes=len(content))
        totals.update({name: len(method(content)) for name, method in _METHODS.items()})
        print(f"::progress {number} of {len(files)} files, {number * 100 // len(files)}%", flush=True)
    best = min(_METHODS, key=totals.__getitem__)
    print(f"{len(files)} files, {totals['lines']} lines, {totals['bytes']} bytes; {best}: {totals[best]}")
    print(f"sha256 of all: {digest.hexdigest()}")
    return 0


def verify(folder: Path) -> int:
    """Write files and their checksums, damage one file, and let sha256sum find it."""
    names = [f"part-{number:02}.bin" for number in range(20)]
    sums = []
    for number, name in enumerate(names):
        content = hashlib.shake_256(name.encode()).digest(4 << 20)
        sums.append(f"{hashlib.sha256(content).hexdigest()}  {name}\n")
        (folder / name).write_bytes(content)
        print(f"::progress wrote {name}, {(number + 1) * 5}%", flush=True)
    (folder / "SHA256SUMS").write_text("".join(sums))
    with (folder / names[13]).open("r+b") as damaged:
        damaged.write(b"damaged")
    return subprocess.run(
        ["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=folder, check=False
    ).returncode


def tidy(folder: Path) -> int:
    """Ask before deleting files, wait for the answer, and go on."""
    old = [folder / f"old-{number}.log" for number in range(3)]
    for path in old:
        path.write_text("no longer needed\n")
    print(f"::permission may I delete {len(old)} old log files?", flush=True)
    if sys.stdin.readline().strip() != "yes":
        print("not allowed")
        return 1
    for path in old:
        path.unlink()
        print(f"::progress deleted {path.name}", flush=True)
    return 0


def main() -> int:
    """Run the job named in argv on the folder named after it."""
    jobs = {"survey": survey, "verify": verify, "tidy": tidy}
    return jobs[sys.argv[1]](Path(sys.argv[2]))


if __name__ == "__main__":
    sys.exit(main())
