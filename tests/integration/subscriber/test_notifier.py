"""The hook of a watch: what it is given, and that it never stops anything."""

import os
from pathlib import Path

from jobwire.subscriber.notifications import Notification, Notifier
from jobwire.testing import wait_for

ASKED = Notification("0000abcd", "permission_required", "may I\n\x1b[2J?", "running")


def notifier_of(script: str, warnings: list[str], seconds: float = 10.0) -> Notifier:
    """Return one that runs a shell script."""
    environ = {**os.environ, "JOBWIRE_ATTEMPT": "7"}
    return Notifier(
        hook=["sh", "-c", script], bell=False, environ=environ, warn=warnings.append, hook_seconds=seconds
    )


def test_the_hook_finds_the_moment_in_its_environment(tmp_path: Path) -> None:
    """Event, job, detail without control characters, and status; leaving waits until it has run."""
    said, warnings = tmp_path / "said", list[str]()
    names = "$JOBWIRE_EVENT|$JOBWIRE_JOB|$JOBWIRE_DETAIL|$JOBWIRE_STATUS|$JOBWIRE_ATTEMPT"
    with notifier_of(f'printf "%s" "{names}" > {said}', warnings) as notifier:
        notifier.tell(ASKED)
    assert said.read_text() == r"permission_required|0000abcd|may I\n\x1b[2J?|running|"
    assert warnings == []


def test_a_hook_that_fails_is_said(tmp_path: Path) -> None:
    """An exit code and a signal are named, and the next notification is made all the same."""
    warnings: list[str] = []
    with notifier_of("exit 3", warnings) as notifier:
        notifier.tell(ASKED)
        notifier.tell(ASKED)
    with notifier_of("kill -9 $$", warnings) as notifier:
        notifier.tell(ASKED)
    with Notifier(hook=["/"], bell=False, environ={}, warn=warnings.append) as notifier:
        notifier.tell(ASKED)
    assert [text.partition("0000abcd")[2] for text in warnings] == [
        " failed: exit code 3",
        " failed: exit code 3",
        " failed: signal 9",
        ": Permission denied",
    ]


def test_a_hook_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    """After its time the whole group of the hook is killed; who tells is never kept waiting."""
    pid_file, warnings = tmp_path / "pid", list[str]()
    with notifier_of(f"sleep 300 & echo $! > {pid_file}; wait", warnings, seconds=0.5) as notifier:
        notifier.tell(ASKED)
        wait_for(lambda: warnings, what="the end of the hook")
    assert "was ended after" in warnings[0]
    stat = Path(f"/proc/{pid_file.read_text().strip()}/stat")
    wait_for(lambda: not stat.exists() or " Z " in stat.read_text(), what="its child to be gone")


def test_a_flood_of_moments_is_bounded(tmp_path: Path) -> None:
    """More notifications than may wait are left out and said, and leaving takes the time of one hook."""
    warnings: list[str] = []
    with notifier_of("sleep 300", warnings, seconds=0.2) as notifier:
        for _ in range(200):
            notifier.tell(ASKED)
    assert any("left out" in text for text in warnings)
