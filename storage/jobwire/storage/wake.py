"""How processes of one home wake each other: who changed something touches a file, who waits watches it.

`<home>/wake/` holds at most 256 empty files; a name (`agent:builder`, `thread:t1`) stands for one of them by
its hash, so a file also wakes who waits for another name, and whoever is woken looks. It is touched after the
commit: a watch on the database's log reports the frames before they can be read.
"""

from __future__ import annotations

import contextlib
import functools
import os
import zlib
from typing import TYPE_CHECKING, TypeVar

from jobwire.core.clock import Clock, SystemClock
from jobwire.storage.home_paths import HomePaths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from inotify_simple import INotify

_T = TypeVar("_T")
_BUCKETS = 256
# A program that writes without touching, a touch that failed: found so late.
_LOOK_SECONDS = 2.0
_FIRST_SECONDS = 0.2
_GROWTH = 1.5
# inotify(7): attributes changed (which utime(2) and unlink(2) do), removed, moved; IN_DONT_FOLLOW.
_MASK = 0x004 | 0x400 | 0x800 | 0x02000000


def touch(home: str, names: Iterable[str]) -> None:
    """Wake whoever waits for one of `names`. After the commit; never fails, and creates nothing.

    Whoever waits made the file before it looked: where there is none, nobody has looked too early.
    """
    for path in {_path(home, name) for name in names}:
        # Read-only, or not ours: what was committed stands, and waiters find it within two seconds.
        with contextlib.suppress(OSError):
            os.utime(path, follow_symlinks=False)


def wait_until(
    look: Callable[[], _T | None],
    *,
    home: str,
    names: Iterable[str],
    seconds: float,
    clock: Clock | None = None,
) -> _T | None:
    """Return what `look` returns once it is not None, or None after `seconds`.

    It is asked at once, whenever somebody touches one of `names`, and every two seconds; where the system
    gives no file events after 0.2 s, and then half as long again each time, up to those two seconds.
    """
    clock = clock or SystemClock()
    until = clock.monotonic() + seconds
    if (found := look()) is not None:
        return found
    paths = sorted({_path(home, name) for name in names})
    pause = _FIRST_SECONDS
    with _notifier() as events:
        while True:
            # Watched before each look, so that no touch falls between look and sleep; anew, because the
            # files may have been removed.
            watched = events is not None and _watch(events, paths)
            if (found := look()) is not None:
                return found
            left = until - clock.monotonic()
            if left <= 0:
                return None
            if events is not None and watched:
                # At least a millisecond: poll(2) takes whole ones.
                events.read(timeout=max(1, round(min(left, _LOOK_SECONDS) * 1000)))
            else:
                clock.sleep(min(left, pause))
                pause = min(pause * _GROWTH, _LOOK_SECONDS)


@contextlib.contextmanager
def _notifier() -> Iterator[INotify | None]:
    """Give a source of file events; None where there is no library, or no descriptor left for it."""
    try:
        from inotify_simple import INotify  # noqa: PLC0415 - only who waits pays for it

        events = INotify(nonblocking=True)
    except (ImportError, OSError):
        yield None
        return
    with events:
        yield events


def _watch(events: INotify, paths: Iterable[str]) -> bool:
    """Watch each of the files, made where missing; tell whether that could be done."""
    from jobwire.storage.files import DIRECTORY_MODE, FILE_MODE  # noqa: PLC0415 - brings threads

    try:
        for path in paths:
            with contextlib.suppress(FileExistsError):
                os.mkdir(os.path.dirname(path), DIRECTORY_MODE)
            os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE))
            events.add_watch(path, _MASK)
    except OSError:
        return False
    return True


@functools.lru_cache(maxsize=1024)
def _path(home: str, name: str) -> str:
    return HomePaths(home).wake_path(f"{zlib.crc32(name.encode()) % _BUCKETS:02x}")
