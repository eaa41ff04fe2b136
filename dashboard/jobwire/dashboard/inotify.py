"""Which files of a directory changed, as inotify(7) tells it.

A record is replaced by renaming over it, so IN_MOVED_TO names each changed record once, at a cost that
does not depend on how many finished jobs lie in the directory. A poll would have to stat them all.
"""

from pathlib import Path

from inotify_simple import Event, INotify, flags

_MASK = flags.MOVED_TO | flags.DELETE | flags.DELETE_SELF | flags.MOVE_SELF | flags.ONLYDIR
_LOST = flags.Q_OVERFLOW | flags.DELETE_SELF | flags.MOVE_SELF | flags.IGNORED


class WatchLostError(Exception):
    """Changes were lost, or the directory went away: look at everything again and watch anew."""


class DirectoryWatch:
    """Names of files that were renamed into, or removed from, one directory since the last look.

    Raises OSError where the directory is missing or the system has no watches left (ENOSPC). It sees
    changes by processes of this host only: not those of others on a network file system.
    """

    def __init__(self, directory: Path) -> None:
        self._source = INotify(nonblocking=True)
        self._waiting: list[Event] = []
        try:
            self._source.add_watch(directory, _MASK)
        except OSError:
            self._source.close()
            raise

    def wait(self, seconds: float) -> None:
        """Return once something changed, or after so long."""
        if not self._waiting:
            self._waiting += self._source.read(timeout=max(1, round(seconds * 1000)))

    def changed(self) -> set[str]:
        """Return the names; never blocks. Raises WatchLostError."""
        events = (*self._waiting, *self._source.read(timeout=0))
        self._waiting.clear()
        names: set[str] = set()
        for event in events:
            if event.mask & _LOST:
                raise WatchLostError
            names.add(event.name)
        return names

    def close(self) -> None:
        """Close the watch; idempotent."""
        self._source.close()
