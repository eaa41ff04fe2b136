"""`jobwire top` shows the agents and their locks by a key."""

import asyncio
from pathlib import Path

from textual.widgets import Static

from jobwire.coordination import agents
from jobwire.coordination.agents import Beat, Joining
from jobwire.coordination.locks.changes import LockRequest
from jobwire.coordination.locks.file_locks import Locks
from jobwire.coordination.store import CoordinationStore
from jobwire.dashboard.coordination.agents_screen import AgentsScreen, agent_lines, lock_lines
from jobwire.dashboard.coordination.locks import LockView
from jobwire.dashboard.fleet import Query, Thresholds
from jobwire.dashboard.model import FleetModel
from jobwire.dashboard.top import Top
from jobwire.testing.fleet_writer import FleetWriter

from .test_top_answers import until


def test_a_key_shows_agents_locks_and_waiters(tmp_path: Path) -> None:
    """Live, without a store as well; texts of agents act neither on the terminal nor as markup."""
    writer = FleetWriter(tmp_path / "home")

    def shown(app: Top) -> str:
        return str(app.screen.query_one("#lines", Static).content)

    async def walk() -> None:
        app = Top(model=FleetModel(writer.store, limits=Thresholds(), poll=True), query=Query())
        async with app.run_test(size=(100, 24)) as pilot:
            await pilot.press("g")
            await until(pilot, lambda: isinstance(app.screen, AgentsScreen))
            await until(pilot, lambda: "no agent has joined" in shown(app))
            store = CoordinationStore(str(writer.home))
            with store.changing() as change:
                agents.join(change, "builder", Joining())
                agents.beat(change, "builder", Beat("blocked", "[bold]x\u202e", 0.5))
            locks = Locks(store, job_ended=lambda _: False)
            locks.acquire(LockRequest("builder", ("src/a.py",)))
            locks.begin(LockRequest("other", ("src",)))
            store.close()
            await until(pilot, lambda: "1 held, 1 waiting" in shown(app))
            text = shown(app)
            assert "1 blocked" in text
            assert "50% [bold]x" in text
            assert "\u202e" not in text
            assert "src/a.py: builder" in text
            assert "other waits" in text
            await pilot.press("escape")
            await until(pilot, lambda: len(app.screen_stack) == 1)

    asyncio.run(walk())
    writer.close()


def test_nothing_is_said_of_nothing() -> None:
    """Without agents and locks there are two lines that say so."""
    empty = LockView([], [], [], [["a", "b"]], 0, 0)
    assert [text for text, _ in agent_lines([], 0.0, 80)] == ["agents: none"]
    assert [text for text, _ in lock_lines(empty, 0.0)][1:] == [
        "locks: 0 held, 0 waiting",
        "deadlock: a -> b -> a",
    ]
