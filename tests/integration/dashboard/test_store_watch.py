"""The watch on the agents' store: what keeps it from looking is told, and a defect of it too."""

import asyncio
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from jobwire.core.clock import SystemClock
from jobwire.dashboard import serve
from jobwire.dashboard.broadcast import Broadcaster
from jobwire.dashboard.coordination import looking
from jobwire.dashboard.coordination.looking import StoreWatch
from jobwire.dashboard.fleet import Thresholds
from jobwire.dashboard.model import FleetModel
from jobwire.registry.store import RecordStore
from jobwire.testing import new_home, wait_for


def test_a_home_that_may_not_be_looked_into_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch goes on, and the page says what is wrong."""

    def refused(_watch: StoreWatch, _store: object) -> object:
        raise PermissionError("may not be looked into")

    monkeypatch.setattr(StoreWatch, "_look", refused)
    monkeypatch.setattr(looking, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(looking, "_TROUBLE_SECONDS", 0.01)
    watch, stop = StoreWatch(tmp_path), threading.Event()
    thread = threading.Thread(target=watch.run, args=(stop,))
    thread.start()
    try:
        wait_for(lambda: watch.trouble == "may not be looked into", what="the trouble")
    finally:
        stop.set()
        thread.join()


def test_a_defect_of_the_watch_is_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Views that would stand still have their cause on standard error."""

    class Broken:
        def run(self, _stop: threading.Event) -> None:
            """End before its time."""
            raise ZeroDivisionError("ours")

    store = RecordStore(new_home(tmp_path / "home"))
    model = FleetModel(store, limits=Thresholds(), poll=True)
    following = serve._following(model, cast("Any", Broken()), Broadcaster(start_id="a"), SystemClock())

    async def told() -> str:
        async with following:
            said = ""
            while "ZeroDivisionError: ours" not in said:
                await asyncio.sleep(0.01)
                said += capsys.readouterr().err
            return said

    assert "Traceback" in asyncio.run(asyncio.wait_for(told(), 60))
