"""`jobwire top` answers what the chosen job asks."""

import asyncio
from pathlib import Path

from textual.pilot import Pilot

from jobwire.dashboard.fleet import Query, Thresholds
from jobwire.dashboard.model import FleetModel
from jobwire.dashboard.top import Top
from jobwire.jobs.requests import find
from jobwire.testing.fleet_writer import FleetWriter


def test_a_key_shows_the_open_request_and_answers_it(tmp_path: Path) -> None:
    """By a choice, with Enter, and by a typed text; a job that asks nothing says so."""
    writer = FleetWriter(tmp_path / "home")
    job = writer.start("release")
    for name, more in (("a", {"choices": ["yes", "no"], "scope": "all"}), ("b", {})):
        body = {"id": name, "kind": "question", "text": f"[bold]{name}?\x1b[2J", **more}
        writer.say(job, "permission_required", "?", request=body)

    async def walk() -> None:
        app = Top(model=FleetModel(writer.store, limits=Thresholds(), poll=True), query=Query())
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("w")
            await until(pilot, lambda: len(app.screen_stack) == 2)
            await pilot.press("ctrl+a", "down", "enter")
            await until(pilot, lambda: answer("a") == ("no", True))
            await until(pilot, lambda: len(app.screen_stack) == 1)
            await until(pilot, lambda: _asks(app, job) == ["b"])
            await pilot.press("w")
            await until(pilot, lambda: len(app.screen_stack) == 2)
            await pilot.press(*"tomorrow", "enter")
            await until(pilot, lambda: answer("b") == ("tomorrow", False))
            await until(pilot, lambda: _asks(app, job) == [])
            await pilot.press("w")
            assert len(app.screen_stack) == 1

    def answer(name: str) -> tuple[str | None, bool]:
        found = find(writer.store.get(job).requests, name)
        return (found.answer, found.always) if found else (None, False)

    asyncio.run(walk())
    writer.close()


def _asks(app: Top, job: str) -> list[object]:
    return [one["id"] for one in app._model.rows[job].asks]


async def until(pilot: Pilot[int], fact: object) -> None:
    """Wait for a fact while the application goes on."""
    for _ in range(600):
        if callable(fact) and fact():
            return
        await pilot.pause(0.05)
    raise AssertionError("it did not come to be")
