"""Who waits is woken by who changed something: with file events and without, and no change is missed."""

import importlib.util
import shutil
import sys
import threading
from pathlib import Path

import pytest

from jobwire.core.clock import SystemClock
from jobwire.storage import wake
from jobwire.storage.wake import touch, wait_until
from jobwire.testing.clock import ManualClock
from jobwire.testing.requirements import skip_here

_LONG = 60.0


@pytest.fixture
def only_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing but a file event end a sleep."""
    if importlib.util.find_spec("inotify_simple") is None:
        skip_here("inotify_simple is not installed")
    monkeypatch.setattr(wake, "_LOOK_SECONDS", 3600.0)


class Store:
    """A value that somebody sets; counts how often it was looked at."""

    def __init__(self) -> None:
        self.value: str | None = None
        self.looks = 0
        self.looked = threading.Event()

    def look(self) -> str | None:
        """Return the value."""
        self.looks += 1
        if self.looks > 1:
            self.looked.set()
        return self.value


@pytest.fixture
def store() -> Store:
    """Give an empty store."""
    return Store()


def _waiting(home: Path, store: Store, found: list[str | None]) -> threading.Thread:
    thread = threading.Thread(
        target=lambda: found.append(
            wait_until(store.look, home=str(home), names=["agent:a", "thread:t"], seconds=_LONG)
        )
    )
    thread.start()
    assert store.looked.wait(60)
    return thread


@pytest.mark.usefixtures("only_events")
@pytest.mark.parametrize("name", ["agent:a", "thread:t"])
def test_a_touch_wakes_who_waits(tmp_path: Path, store: Store, name: str) -> None:
    """A waiter hears of each of its names, and of nothing else does it need to."""
    found: list[str | None] = []
    thread = _waiting(tmp_path, store, found)
    store.value = "done"
    touch(str(tmp_path), [name])
    thread.join(_LONG)
    assert found == ["done"]


@pytest.mark.usefixtures("only_events")
def test_a_touch_between_look_and_sleep_is_not_missed(tmp_path: Path) -> None:
    """A change that comes right after the look ends the sleep that follows."""
    state: list[str] = []
    looks = 0

    def look() -> str | None:
        nonlocal looks
        looks += 1
        found = state[0] if state else None
        if looks == 2:
            state.append("just in time")
            touch(str(tmp_path), ["agent:a"])
        return found

    assert wait_until(look, home=str(tmp_path), names=["agent:a"], seconds=_LONG) == "just in time"
    assert looks == 3


@pytest.mark.usefixtures("only_events")
def test_a_removed_wake_folder_is_made_anew(tmp_path: Path, store: Store) -> None:
    """Somebody who tidies the home up ends no waiting: the files are watched again."""
    found: list[str | None] = []
    thread = _waiting(tmp_path, store, found)
    looks = store.looks
    # The waiter may make its files again before the folder itself goes.
    shutil.rmtree(tmp_path / "wake", ignore_errors=True)
    while store.looks == looks and thread.is_alive():
        store.looked.clear()
        store.looked.wait(1)
    store.value = "done"
    while thread.is_alive():
        touch(str(tmp_path), ["agent:a"])
        thread.join(0.05)
    assert found == ["done"]
    assert oct((tmp_path / "wake").stat().st_mode)[-3:] == "700"


def test_without_file_events_the_looks_become_rarer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system tells nothing, looks are 0.2 s apart, each pause half as long again, to 2 s."""
    monkeypatch.setitem(sys.modules, "inotify_simple", None)
    clock = ManualClock()
    assert wait_until(lambda: None, home=str(tmp_path), names=["agent:a"], seconds=10, clock=clock) is None
    assert [round(pause, 2) for pause in clock.slept] == [0.2, 0.3, 0.45, 0.68, 1.01, 1.52, 2.0, 2.0, 1.84]


def test_what_is_there_is_returned_without_a_file(tmp_path: Path) -> None:
    """The first look costs nothing: no folder, no descriptor, whatever the time limit."""
    assert wait_until(lambda: 1, home=str(tmp_path), names=["agent:a"], seconds=0) == 1
    assert not list(tmp_path.iterdir())


def test_a_touch_creates_nothing_and_never_fails(tmp_path: Path) -> None:
    """Who commits pays nothing where nobody waits, and no home can make it fail."""
    touch(str(tmp_path), ["agent:a"])
    touch(str(tmp_path / "missing"), ["agent:a", "agent:b"])
    assert not list(tmp_path.iterdir())


def test_a_link_in_place_of_a_wake_file_is_left_alone(tmp_path: Path) -> None:
    """Neither a waiter nor a committer follows a link; the waiter then looks by the clock."""
    target = tmp_path / "target"
    target.write_text("")
    (tmp_path / "wake").mkdir()
    path = Path(wake._path(str(tmp_path), "agent:a"))
    path.symlink_to(target)
    before = target.stat().st_mtime_ns
    touch(str(tmp_path), ["agent:a"])
    assert wait_until(lambda: None, home=str(tmp_path), names=["agent:a"], seconds=0.01) is None
    assert target.stat().st_mtime_ns == before


def test_the_folder_is_bounded(tmp_path: Path) -> None:
    """However many names are waited for, there are at most 256 files."""
    clock = SystemClock()
    names = [f"thread:{number}" for number in range(2000)]
    assert wait_until(lambda: None, home=str(tmp_path), names=names, seconds=0.0, clock=clock) is None
    assert len(list((tmp_path / "wake").iterdir())) == 256
