"""The same job on a standalone cluster: one master, two workers, an executor killed in the middle."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobwire.core.clock import SystemClock
from jobwire.core.exit_codes import ExitCode
from jobwire.metrics import job
from jobwire.metrics.session import java_options
from jobwire.testing.rehearsal import Rehearsal
from jobwire.testing.standalone import HOST, QUICK_START, StandaloneCluster, descendants
from jobwire.testing.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("java"), pytest.mark.timeout(900)]
ENTRIES = list(Rehearsal(seed=51, jobs=70, active=30))
MORE = list(Rehearsal(seed=52, jobs=5))
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "cluster.py"
_LONG_SECONDS = 300.0


def submit(cluster: StandaloneCluster, home: Any, *words: str) -> "subprocess.Popen[str]":
    """Start the job by spark-submit, in small batches so that a kill falls between or into them."""
    program = Path(str(job.__file__))
    arguments = ["once", "--home", str(home.path), "--history", "", "--max-rows", "100", *words]
    jvm = {
        "spark.driver.extraJavaOptions": f"{java_options(home.path / 'spark.log')} {QUICK_START}",
        "spark.executor.extraJavaOptions": QUICK_START,
    }
    return subprocess.Popen(
        cluster.submit_command(program, arguments, options=jvm),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=cluster.environment(),
        cwd=home.path,
    )


def finish(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """Wait for the job and return its last report."""
    try:
        out, errors = process.communicate(timeout=_LONG_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    reports = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert reports, errors[-2000:]
    last: dict[str, Any] = reports[-1]
    return last


def kill_an_executor(cluster: StandaloneCluster, home: Any) -> None:
    """Wait until a part of the rows is counted, then kill -9 one of the executors."""
    wait_for(
        lambda: home.counted() >= 100,
        deadline_seconds=_LONG_SECONDS,
        step_seconds=0.1,
        what="the first batches",
    )
    victim = wait_for(cluster.executors, deadline_seconds=60, step_seconds=0.1, what="an executor")[0]
    os.kill(victim, signal.SIGKILL)
    assert home.counted() < len(ENTRIES)


def test_shared_directory(home: Any, tmp_path: Path) -> None:
    """Executors read the journal's files; one of them is killed; the tables are those of a plain loop.

    The rest comes by `jobwire metrics once --master`, with the supervisor in between.
    """
    home.record(ENTRIES)
    with StandaloneCluster(tmp_path / "cluster", clock=SystemClock()) as cluster:
        process = submit(cluster, home)
        kill_an_executor(cluster, home)
        assert finish(process)["exit_code"] == 0
        assert home.counted() == len(ENTRIES)
        home.record(MORE)
        words = ("--history", "", "--master", cluster.url, "--memory", "640m")
        again = home.run("once", *words, SPARK_LOCAL_IP=HOST)
        assert again.returncode == 0, again.stderr
    assert home.counted() == len(ENTRIES) + len(MORE)
    assert home.digests() == home.expected()


@pytest.mark.root
def test_inline_partitions(home: Any, tmp_path: Path) -> None:
    """Executors that cannot see the journal get its bytes in their tasks; one of them is killed."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("hiding a directory from the workers needs root and unshare")
    home.record(ENTRIES)
    hide = f'mount -t tmpfs none {home.journal} && exec "$@"'
    blind = ("unshare", "--mount", "sh", "-c", hide, "worker")
    with StandaloneCluster(tmp_path / "cluster", clock=SystemClock(), worker_prefix=blind) as cluster:
        # First the proof that they are blind.
        sees_nothing = finish(submit(cluster, home))
        assert sees_nothing["exit_code"] == ExitCode.NOT_FOUND
        assert "--inline" in sees_nothing["hint"]
        assert home.counted() == 0
        process = submit(cluster, home, "--inline")
        kill_an_executor(cluster, home)
        assert finish(process)["exit_code"] == 0
    assert home.counted() == len(ENTRIES)
    assert home.digests() == home.expected()


def test_ctrl_c_ends_everything() -> None:
    """Interrupted in the middle, `make cluster` says so and leaves no process behind."""
    example = subprocess.Popen(
        [sys.executable, str(EXAMPLE), "--messages", "5000", "--max-rows", "100", "--workers", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert example.stdout is not None
    shown = []
    for line in example.stdout:
        shown.append(line)
        if " batch " in line:
            break
    started = descendants(example.pid, "")
    assert len(started) > 5, shown  # master, two workers, the driver, executors
    example.send_signal(signal.SIGINT)
    _, errors = example.communicate(timeout=_LONG_SECONDS)
    assert example.returncode == 130, errors
    assert "interrupted" in errors
    wait_for(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in started),
        deadline_seconds=60,
        step_seconds=0.1,
        what="the end of all processes",
    )
