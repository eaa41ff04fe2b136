"""Following the fleet for the page: trouble is told and tried again, a defect is told and ends it."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from jobwire.core.clock import SystemClock
from jobwire.core.errors import StorageError
from jobwire.dashboard.broadcast import Broadcaster
from jobwire.dashboard.follower import follow
from jobwire.dashboard.model import Changes, FleetModel


class _Model(SimpleNamespace):
    """Fails as it is told at each look, in turn; what is left to do then is to close the page."""

    def __init__(self, broadcaster: Broadcaster, *failures: Exception) -> None:
        super().__init__(rows={}, journal=SimpleNamespace(offset=-1), closed=0)
        self._broadcaster = broadcaster
        self._failures = list(failures)
        self.told: list[str] = []

    def start(self) -> None:
        """Begin."""
        self.told.append(self._broadcaster.moment.trouble)

    def wait(self, seconds: float) -> None:
        """Wait for nothing."""
        assert seconds > 0

    def refresh(self) -> Changes:
        """Fail, or end the following."""
        if self._failures:
            raise self._failures.pop(0)
        self._broadcaster.closed = True
        return Changes()

    def close(self) -> None:
        """Count."""
        self.closed += 1


def _follow(broadcaster: Broadcaster, model: _Model) -> list[str]:
    warned: list[str] = []
    made = cast("FleetModel", model)
    asyncio.run(follow(made, broadcaster, clock=SystemClock(), warn=warned.append))
    return warned


def test_what_fails_is_told_and_tried_again() -> None:
    """The page says what is wrong until the fleet is read again; each try is closed."""
    broadcaster = Broadcaster(start_id="a")
    model = _Model(broadcaster, StorageError("the disk is gone"))
    warned = _follow(broadcaster, model)
    assert warned == ["the disk is gone"]
    assert model.told == ["", "the disk is gone"]
    assert (broadcaster.moment.trouble, model.closed) == ("", 2)


def test_a_defect_is_told_to_the_page_and_to_the_operator() -> None:
    """A page that would stand still says so, and the trace is there at once."""
    broadcaster = Broadcaster(start_id="a")
    model = _Model(broadcaster, ZeroDivisionError("ours"))
    warned: list[str] = []
    following = follow(cast("FleetModel", model), broadcaster, clock=SystemClock(), warn=warned.append)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(following)
    assert broadcaster.moment.trouble == "ZeroDivisionError: restart jobwire dashboard"
    assert "Traceback" in warned[0]
    assert model.closed == 1
