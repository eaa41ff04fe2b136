"""The page with 1,000 jobs and 100,000 journaled events, and with 20 open pages at 500 events/s.

First paint and time to live rows in Chromium (cold cache, median of the loads); then processor time and
memory of the server, and the delay from an event to the screen, while a writer updates journal and
records and 19 more pages read the same stream. All files lie in memory (/dev/shm) where there is such a
place: the writer flushes as the registry process does, and on a shared disk it would be the disk that is
measured, not the page.

    python bench/dashboard_bench.py [SECONDS]
"""

import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from jobwire.core.clock import utc_timestamp
from jobwire.core.topics import Topics
from jobwire.dashboard.open_pages import OpenPages
from jobwire.jobs.event import compose, encode_signed
from jobwire.jobs.fold import apply_event
from jobwire.jobs.record import JobRecord
from jobwire.journal.entry import Entry
from jobwire.registry.audit import event_line
from jobwire.registry.revision import Revision
from jobwire.registry.store import payload_digest
from jobwire.testing.dashboard_process import DashboardProcess
from jobwire.testing.fleet_writer import FleetWriter
from jobwire.testing.memory import memory_directory
from jobwire.testing.requirements import find_program
from jobwire.testing.waiting import wait_for

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "dashboard.json"
JOBS, JOURNALED, PAGES, RATE = 1000, 100_000, 20, 500
SECONDS = 15.0
LOADS = 5
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
)
_TICKS = os.sysconf("SC_CLK_TCK")
# Each detail says when it was written; the page notes when it drew it.
_WATCH = """
window.delays = [];
new MutationObserver((changes) => { const now = Date.now(); for (const change of changes) {
  const said = /^at ([0-9]+)$/.exec(change.target.textContent);
  if (said) window.delays.push(now - Number(said[1])); } })
  .observe(document.querySelector('tbody'), {subtree: true, childList: true, characterData: true});
"""
# Notes when the first rows were there.
_FIRST_ROW = """
new MutationObserver((_, self) => { if (document.querySelector('tbody tr')) {
  self.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.firstRow = performance.now(); })); } })
  .observe(document, {subtree: true, childList: true});
"""


def fill(home: Path) -> list[str]:
    """Write the jobs and the journal; return the ids."""
    writer = FleetWriter(home, durable=False)
    jobs = [writer.start(f"job number {number}", agent_session=f"s{number % 9}") for number in range(JOBS)]
    _, payload = writer.next_event(jobs[0], "progress", "an event of ordinary length", percent=50)
    topics = Topics()
    begun = time.time_ns() // 1000 - JOURNALED * 1000
    for start in range(0, JOURNALED, 1000):
        entries = [
            Entry(begun + (start + n) * 1000, topics.events(jobs[n]), payload, False, "accepted")
            for n in range(1000)
        ]
        writer.append(entries)
    writer.close()
    return jobs


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """Give a browser with a profile of its own."""
    with tempfile.TemporaryDirectory(prefix="jobwire-chromium-") as profile:
        options = Options()
        options.binary_location = find_program("chromium") or "chromium"
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        service = Service(find_program("chromedriver") or "chromedriver")
        driver = webdriver.Chrome(options=options, service=service)
        try:
            yield driver
        finally:
            driver.quit()


def load_page(driver: webdriver.Chrome, url: str) -> dict[str, float]:
    """Load the page once and return milliseconds from navigation to first paint, first rows, all rows."""
    driver.get("about:blank")
    driver.get(url)
    count = "return document.querySelectorAll('tbody tr').length"
    wait_for(lambda: driver.execute_script(count) == JOBS, deadline_seconds=60)
    return {
        "first_paint_ms": driver.execute_script(
            "return performance.getEntriesByName('first-contentful-paint')[0].startTime"
        ),
        "live_rows_ms": driver.execute_script("return window.firstRow"),
        "all_rows_ms": driver.execute_script("return performance.now()"),
    }


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_mib(pid: int) -> float:
    """Return the memory that a process holds."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def read_pages(home: Path, count: int) -> None:
    """Read the stream of `home`'s page `count` times, until killed (run as a process of its own)."""
    import selectors  # noqa: PLC0415 - in the child only

    page = OpenPages(home).find()[0]
    address = urlsplit(page.url)
    head = f"GET /api/stream HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {page.token}\r\n\r\n"
    chosen = selectors.DefaultSelector()
    for _ in range(count):
        link = socket.create_connection((address.hostname, address.port))
        link.sendall(head.encode())
        chosen.register(link, selectors.EVENT_READ)
    while True:
        for key, _ in chosen.select():
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.recv(1 << 20)


def write_events(home: Path, seconds: float) -> None:
    """Say RATE events a second for `seconds`, in turn for every job (run as a process of its own).

    As the registry process does: what arrived together is journaled with one flush, then folded.
    """
    writer = FleetWriter(home, durable=False)
    records = [writer.store.get(job_id) for job_id in sorted(writer.store.job_ids())]
    topics = Topics()
    said, begun = 0, time.monotonic()
    while (elapsed := time.monotonic() - begun) < seconds:
        entries, revisions = [], []
        for number in range(said, min(int(elapsed * RATE), said + 100)):
            place = number % len(records)
            revision, payload = next_revision(records[place])
            records[place] = revision.after
            revisions.append(revision)
            topic = topics.events(revision.after.job_id)
            entries.append(Entry(time.time_ns() // 1000, topic, payload, False, "accepted"))
        if entries:
            writer.append(entries)
            writer.store.write(revisions)
        said += len(entries)
        time.sleep(0.02)
    print(said / (time.monotonic() - begun), time.process_time() / (time.monotonic() - begun))
    writer.close()


def next_revision(record: JobRecord) -> tuple[Revision, bytes]:
    """Return the change by the job's next event, and the event's payload."""
    now = time.time()
    event = compose(
        seq=record.last_seq + 1,
        job_id=record.job_id,
        event="progress",
        timestamp=utc_timestamp(now),
        detail=f"at {int(now * 1000)}",
        data={"percent": record.last_seq % 100},
    )
    payload = encode_signed(event, record.auth_token)
    line, _ = event_line(
        at=utc_timestamp(now),
        source="bench",
        verdict="accepted",
        attempt=record.attempt,
        seq=event.seq,
        digest=payload_digest(payload),
        payload=payload,
    )
    return Revision(record, apply_event(record, event, now), [line]), payload


def child(*words: str) -> subprocess.Popen[str]:
    """Start this file again with other words."""
    return subprocess.Popen([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True)


def under_load(driver: webdriver.Chrome, server: DashboardProcess, seconds: float) -> dict[str, float]:
    """Return the server's cost and the delays while events come in and pages are open."""
    readers = child("--read", str(server.home), str(PAGES - 1))
    driver.execute_script(_WATCH)
    cpu, begun = processor_seconds(server.pid), time.monotonic()
    writer = child("--write", str(server.home), str(seconds))
    rate, writer_share = map(float, writer.communicate()[0].split())
    taken = time.monotonic() - begun
    used = processor_seconds(server.pid) - cpu
    readers.terminate()
    readers.communicate()
    delays = sorted(driver.execute_script("return window.delays"))
    return {
        "events_per_second_wanted": RATE,
        "events_per_second": round(rate),
        "writer_cpu_percent_of_a_core": round(100 * writer_share, 1),
        "open_pages": PAGES,
        "server_cpu_percent_of_a_core": round(100 * used / taken, 1),
        "server_memory_mib": round(resident_mib(server.pid), 1),
        "events_seen_on_screen": len(delays),
        "delay_p50_ms": delays[len(delays) // 2],
        "delay_p99_ms": delays[len(delays) * 99 // 100],
    }


def main() -> int:
    """Measure, print a table, write bench/results/dashboard.json; return 0."""
    if len(sys.argv) > 2 and sys.argv[1] == "--read":
        read_pages(Path(sys.argv[2]), int(sys.argv[3]))
    if len(sys.argv) > 2 and sys.argv[1] == "--write":
        write_events(Path(sys.argv[2]), float(sys.argv[3]))
        return 0
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    place = memory_directory()
    where = "a temporary folder" if place is None else "memory"
    with tempfile.TemporaryDirectory(prefix="jobwire-bench-", dir=place) as folder:
        home = Path(folder) / "home"
        fill(home)
        begun = time.monotonic()
        with DashboardProcess(home) as server, chromium() as driver:
            ready = time.monotonic() - begun
            driver.execute_cdp_cmd("Network.enable", {})
            driver.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": True})
            driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _FIRST_ROW})
            quiet = resident_mib(server.pid)
            driver.get(server.link)
            loads = [load_page(driver, server.url) for _ in range(LOADS)]
            loaded = under_load(driver, server, seconds)
    result: dict[str, Any] = {
        "what": f"{JOBS:,} jobs, {JOURNALED:,} journaled events; then {PAGES} open pages at {RATE} events/s "
        f"for {seconds:g} s; files in {where}; "
        "the writer, the pages' readers, Chromium and the server share the machine",
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "server_memory_at_start_mib": round(quiet, 1),
        "start_to_browser_ready_s": round(ready, 2),
        "page": {name: round(statistics.median(load[name] for load in loads)) for name in loads[0]},
        "under load": loaded,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    for name, value in {**result["page"], **result["under load"]}.items():
        print(f"{name.replace('_', ' '):<32} {value:>10,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
