#!/usr/bin/env python3
"""Write docs/images/dashboard.png: the page on a real broker with real jobs, as Chromium shows it.

    python scripts/readme_picture.py [FILE]

Every row is a process started by `jobwire run`; only what it prints was chosen for the picture.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from jobwire.testing import EmbeddedServer
from jobwire.testing.dashboard_process import DashboardProcess
from jobwire.testing.requirements import find_program
from jobwire.testing.waiting import wait_for

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "dashboard.png"
WIDTH, HEIGHT = 1280, 640
HOME = ".hermes"
# Silent jobs count as stuck in the picture after so many seconds.
STUCK_SECONDS = 12
_FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars"
# Says its lines, one each second from the second one on; then speaks on (repeat) or is silent.
_WORKER = """
import sys, time
*lines, end = sys.argv[1:]
for number, line in enumerate(lines):
    time.sleep(1.0 if number else 0)
    print(line, flush=True)
while end == 'repeat':
    time.sleep(2)
    print(lines[-1], flush=True)
time.sleep(600 if end == 'silent' else 0)
sys.exit(int(end) if end.isdigit() else 0)
"""


class Example(NamedTuple):
    """One job: `lines` are what its command prints, `end` is repeat, silent or an exit code."""

    session: str
    title: str
    lines: tuple[str, ...]
    end: str = "repeat"


EXAMPLES = (
    Example("docs", "Write the release notes", ("::progress 31 commits read, 100%",), "0"),
    Example("infra", "Renew the staging certificates", ("::progress 4 of 4 hosts, 100%",), "0"),
    Example("backend", "Upgrade the ORM", ("::progress 118 of 131 tests pass, 90%", "13 tests fail"), "1"),
    Example("infra", "Rebuild the search index", ("::progress shard 3 of 8, 37%",), "silent"),
    Example(
        "backend",
        "Migrate the user table",
        ("::progress 5 of 6 migrations written, 83%", "::permission May I drop the column users.legacy_id?"),
        "silent",
    ),
    Example("frontend", "Fix the flaky checkout test", ("::progress run 61 of 100, no failure so far, 61%",)),
    Example("frontend", "Translate the settings page", ("::progress 212 of 480 strings, 44%",)),
    Example("docs", "Check every link in the manual", ("::progress 1306 of 1450 links, 90%",)),
)


def start_job(home: Path, example: Example) -> subprocess.Popen[bytes]:
    """Start the job's command under `jobwire run`."""
    words = ["--home", str(home), "run", "--title", example.title, "--agent-session", example.session]
    worker = [sys.executable, "-c", _WORKER, *example.lines, example.end]
    command = [sys.executable, "-m", "jobwire.cli.main", *words, "--quiet", "--", *worker]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def running_jobs(home: Path) -> Iterator[None]:
    """Run all examples for the block, then end them."""
    processes = [start_job(home, example) for example in EXAMPLES]
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGINT)
        for process in processes:
            process.wait(30)


@contextlib.contextmanager
def chromium(profile: Path) -> Iterator[webdriver.Chrome]:
    """Give a browser of the picture's size."""
    options = Options()
    options.binary_location = find_program("chromium") or "chromium"
    for flag in (*_FLAGS.split(), f"--user-data-dir={profile}", f"--window-size={WIDTH},{HEIGHT}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(
        options=options, service=Service(find_program("chromedriver") or "chromedriver")
    )
    try:
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        yield driver
    finally:
        driver.quit()


def picture(target: Path) -> None:
    """Start everything, wait until each job is in its state, and write the picture."""
    with (
        tempfile.TemporaryDirectory(prefix="jobwire-picture-") as folder,
        contextlib.chdir(folder),
        EmbeddedServer(home=_made(Path(folder) / HOME)),
        running_jobs(Path(HOME)),
        DashboardProcess(Path(HOME), "--stuck-after", str(STUCK_SECONDS)) as server,
        chromium(Path(folder) / "profile") as driver,
    ):
        driver.get(server.link)
        wanted = ["waits for you", "stuck", *["running"] * 3, "failed", *["completed"] * 2]
        badges = (
            "return [...document.querySelectorAll('tbody .badge')].map((badge) => badge.innerText.trim())"
        )
        wait_for(lambda: driver.execute_script(badges) == wanted, deadline_seconds=90, what="all states")
        target.parent.mkdir(parents=True, exist_ok=True)
        driver.save_screenshot(str(target))


def _made(home: Path) -> Path:
    home.mkdir(mode=0o700)
    return home


def main() -> int:
    """Write the picture; return 0."""
    target = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else TARGET
    os.environ.pop("JOBWIRE_HOME", None)
    picture(target)
    print(f"wrote {target.name}, {target.stat().st_size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
