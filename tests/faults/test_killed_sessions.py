"""kill -9 of jobwire, agent, tmux server and serve while work is handed over: one reconcile, and all agree.

Seeded: who is killed, and how far the hand-over is then. No instruction is given twice, none is lost without
its job saying so. JOBWIRE_FAULTS=long runs 20 rounds instead of 2.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from jobwire.coordination.sessions.stored import HANDED, HANDING, SessionRow
from jobwire.jobs.lifecycle import Status
from jobwire.registry.store import RecordStore
from jobwire.runner.tmux import Tmux
from jobwire.sessions.listing import Sessions
from jobwire.sessions.reconciling import Reconciler
from jobwire.sessions.stopping import StopHow
from jobwire.storage.process_life import life_of
from jobwire.testing import new_home, wait_for
from jobwire.testing.session_house import SessionHouse
from jobwire.testing.watching import bare_environment

ROUNDS = range(20 if os.environ.get("JOBWIRE_FAULTS") == "long" else 2)
STRIKES = 3
JOBWIRE = [sys.executable, "-m", "jobwire.cli.main"]
# How far a hand-over is.
STAGES: dict[str, Callable[[SessionRow | None], bool]] = {
    "taken": lambda row: row is not None and bool(row.job_id),
    "opened": lambda row: row is not None and bool(row.pane),
    "handing": lambda row: row is not None and row.handing in {HANDING, HANDED},
    "handed": lambda row: row is not None and row.handing == HANDED,
}
VICTIMS = ("submit", "agent", "tmux", "serve")


class Scene:
    """A home without a broker, a tmux server, serve, and somebody who submits."""

    def __init__(self, folder: Path, server: str) -> None:
        home = new_home(folder / "home")
        (home / "jobwire.toml").write_text('[broker]\nbroker = "127.0.0.1"\nport = 1\ntls = "off"\n')
        self.house = SessionHouse(home, server, folder)
        self.home = home
        self.records = RecordStore(home)
        self.serving = self.begin("serve")

    def begin(self, *words: str) -> "subprocess.Popen[bytes]":
        """Start a command."""
        return subprocess.Popen(
            [*JOBWIRE, "--home", str(self.home), *words],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
            env=bare_environment(), cwd=self.house.folder,
        )  # fmt: skip

    def submit(self, text: str) -> "subprocess.Popen[bytes]":
        """Submit to the one session."""
        agent = ("--agent-command", self.house.worker_line, "--deliver", "line", "--as", "builder")
        more = ("--tmux-socket", self.house.server, "--directory", str(self.house.folder), "--wait", "30")
        return self.begin("submit", "--agent-session", "work", *agent, *more, text)

    def strike(self, victim: str, submitting: "subprocess.Popen[bytes]") -> bool:
        """Kill it, where it is there; tell whether it was."""
        row = self.house.inventory.find("work")
        pid: int | None = None
        if victim == "submit":
            pid = submitting.pid
        elif victim == "serve":
            pid = self.serving.pid
        elif victim == "agent" and row is not None and row.pid and life_of(row.pid) == row.life:
            pid = row.pid
        elif victim == "tmux":
            panes = Tmux(socket=self.house.server).panes()
            pid = int(next(iter(panes.values())).server.partition(".")[0]) if panes else None
        with contextlib.suppress(ProcessLookupError):
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
        if victim == "serve":
            self.serving.wait()
            self.serving = self.begin("serve")
        return pid is not None

    def is_reached(
        self, submitting: "subprocess.Popen[bytes]", stage: Callable[[SessionRow | None], bool]
    ) -> bool:
        """Tell whether the hand-over is so far, or has ended."""
        return submitting.poll() is not None or stage(self.house.inventory.find("work"))

    def given(self) -> list[str]:
        """Return the jobs whose instructions reached an agent, each time."""
        path = self.house.folder / "given"
        return path.read_text().split() if path.exists() else []

    def check(self) -> None:
        """Inventory, jobs and tmux agree after one reconcile; every instruction's fate is known."""
        reconciler = Reconciler(str(self.home))
        reconciler.run()
        wait_for(lambda: not reconciler.look(), what="agreement")
        alive = {view.row.job_id: view for view in Sessions(str(self.home)).list() if view.alive}
        assert all(view.alive for view in Sessions(str(self.home)).list())
        given = self.given()
        assert len(given) == len(set(given)), "an instruction was given twice"
        for path in (self.home / "jobs").glob("*.json"):
            record = self.records.get(path.stem)
            if record.status is Status.RUNNING:
                assert record.job_id in alive, f"{record.job_id} runs nowhere"
            elif record.job_id not in given:
                assert record.status is Status.ERROR, f"{record.job_id} was lost as {record.status}"
                assert "session work" in record.detail or "handed over" in record.detail, record.detail


@pytest.fixture
def scene(tmp_path: Path, tmux_server: str) -> Iterator[Scene]:
    """Give a scene; what it started is ended."""
    scene = Scene(tmp_path, tmux_server)
    yield scene
    scene.serving.kill()
    scene.serving.wait()


@pytest.mark.parametrize("seed", ROUNDS)
def test_killed_at_any_point(scene: Scene, seed: int) -> None:
    """Strike after strike on one session, each at another point of a hand-over."""
    choice = random.Random(seed)  # noqa: S311 - a schedule that can be repeated
    for number in range(STRIKES):
        victim, stage = choice.choice(VICTIMS), choice.choice(list(STAGES))
        submitting = scene.submit(choice.choice(["count", "silent", "hang on"]) + f" {number}")
        reached = partial(scene.is_reached, submitting, STAGES[stage])
        wait_for(reached, what=f"{stage} in round {seed}", deadline_seconds=120)
        struck = scene.strike(victim, submitting)
        if not struck or victim in {"serve", "submit"}:
            # The job goes on; nobody waits for its end.
            submitting.kill()
        submitting.wait(timeout=120)
        scene.check()
        row = scene.house.inventory.find("work")
        if row is not None and row.job_id:
            # The next strike needs the session.
            Reconciler(str(scene.home)).run()
            scene.house.stopping.stop("work", StopHow.HARD)
