"""`jobwire top` shows the sessions by a key, and stops and brings back one of them."""

import asyncio
from pathlib import Path

import pytest
from textual.widgets import Static

from jobwire.dashboard.coordination.sessions_screen import SessionsScreen, session_lines
from jobwire.dashboard.fleet import Query, Thresholds
from jobwire.dashboard.model import FleetModel
from jobwire.dashboard.top import Top
from jobwire.testing.fleet_writer import FleetWriter
from jobwire.testing.session_house import SessionHouse, settle

from .test_top_answers import until


def test_a_key_shows_sessions_and_their_panes(
    tmp_path: Path, tmux_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the pane's last lines and how to attach; stop and resume ask once more before they act."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(settle(tmp_path, "echo | line | | bye |")))
    monkeypatch.delenv("TMUX", raising=False)
    writer = FleetWriter(tmp_path / "home")
    house = SessionHouse(Path(writer.home), tmux_server, tmp_path)
    house.open()

    def shown(app: Top) -> str:
        return str(app.screen.query_one("#lines", Static).content)

    async def walk() -> None:
        app = Top(model=FleetModel(writer.store, limits=Thresholds(), poll=True), query=Query())
        async with app.run_test(size=(100, 24)) as pilot:
            await pilot.press("t")
            await until(pilot, lambda: isinstance(app.screen, SessionsScreen))
            await until(pilot, lambda: "you>" in shown(app))
            assert "running" in shown(app)
            assert "attach -t =work" in shown(app)
            await pilot.press("x")
            await until(pilot, lambda: "x again does it" in shown(app))
            assert house.inventory.get("work").state == "running"
            await pilot.press("x")
            await until(pilot, lambda: "stopped" in shown(app))
            await pilot.press("r")
            await pilot.press("r")
            await until(pilot, lambda: house.inventory.get("work").state == "running")
            await app.workers.wait_for_complete()
            await pilot.press("escape")
            await until(pilot, lambda: len(app.screen_stack) == 1)

    asyncio.run(walk())
    writer.close()


def test_without_sessions_one_line_says_so() -> None:
    """An empty list names the command that opens one."""
    ((text, _),) = session_lines([], "", ("", ""), 80)
    assert "sessions create" in text
