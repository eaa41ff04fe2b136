"""Whether somebody holds a lock file, found without touching the lock: trying it could refuse its owner."""

from pathlib import Path

_LOCKS = Path("/proc/locks")
_INODE_FIELD = 5


def is_held(path: Path, *, locks: Path = _LOCKS) -> bool | None:
    """Tell whether a process holds an flock(2) on `path`; None where that cannot be known.

    /proc/locks (proc(5)) names the file as major:minor:inode. Locks of processes outside our PID
    namespace are not listed, so within a container "not held" may be wrong.
    """
    try:
        status = path.stat()
        text = locks.read_text(encoding="ascii")
    except FileNotFoundError:
        return False if locks.exists() else None
    except (OSError, ValueError):
        return None
    inode = str(status.st_ino)
    for line in text.splitlines():
        fields = line.split()
        if "FLOCK" in fields and "->" not in fields and fields[_INODE_FIELD].rpartition(":")[2] == inode:
            return True
    return False
