"""The unit tests, one process a core: `scripts/unit_tests.py [PYTEST ARGUMENT ...]`.

What all of them import is imported once, before the processes part. Each collects its own files only: workers
of pytest-xdist would collect all of them each, and report test by test, which takes longer than the tests.
"""

import importlib
import os
import sys
import tempfile
import traceback
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MOST = 4
# No cache, which each would write as if it were alone, and no plugins for other rings.
OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:docker"]
# But for pytest's plugins, which it has to import by itself.
SHARED = (
    "asyncio",
    "pydantic",
    "sqlite3",
    "yaml",
    "cryptography.x509",
    "jobwire.api",
    "jobwire.hooks.handling",
)
NONE_RAN = 5  # none of this share was asked for, by -k for example


def run_share(files: list[str], said: Path) -> int:
    """Run these files in a process of its own, which writes into `said`; return its id."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            with said.open("wb") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            code = pytest.main([*OPTIONS, *sys.argv[1:], *files])
            sys.stdout.flush()
        except BaseException:  # noqa: BLE001 - told, and this process ends
            traceback.print_exc()
        finally:
            os._exit(code)  # the folder and all else is the parent's
    return process


def main() -> int:
    """Run all, print what each said, and return the first exit code that is not of success."""
    os.chdir(ROOT)
    # Before anything is imported that asks for it; see tests/conftest.py.
    os.environ.setdefault("HYPOTHESIS_NO_PLUGINS", "1")
    for name in SHARED:
        importlib.import_module(name)
    files = [str(path) for path in sorted(Path("tests/unit").glob("*/test_*.py"))]
    shares = min(len(os.sched_getaffinity(0)), MOST)
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder) / str(number) for number in range(shares)]
        started = [run_share(files[number::shares], said) for number, said in enumerate(outputs)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in started]
        for said in outputs:
            sys.stdout.buffer.write(said.read_bytes())
    failed = [code for code in codes if code not in (0, NONE_RAN)]
    return failed[0] if failed else min(codes)


if __name__ == "__main__":
    sys.exit(main())
