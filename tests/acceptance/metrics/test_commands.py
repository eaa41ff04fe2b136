"""The commands of `jobwire metrics` on a scripted journal."""

import json
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from jobwire.core.exit_codes import ExitCode
from jobwire.testing.rehearsal import Rehearsal
from jobwire.testing.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]
ENTRIES = list(Rehearsal(seed=41, jobs=80, active=20))
MORE = list(Rehearsal(seed=42, jobs=20))


def sealed(home: Path) -> list[tuple[bytes, str]]:
    """Return payloads and verdicts of the history, which any reader of Parquet reads as a folder."""
    table = pyarrow.dataset.dataset(home / "metrics" / "history").to_table().sort_by("offset")
    return list(zip(*(table.column(name).to_pylist() for name in ("payload", "verdict")), strict=True))


def test_once_rebuild_and_the_readers(home: Any) -> None:
    """`once` computes what a plain loop computes, a second one adds what is new, `rebuild` gives the same."""
    home.record(ENTRIES)
    first = home.run("once", "--json")
    assert first.returncode == 0, first.stderr
    summary = json.loads(first.stdout)
    assert summary["rows"] == len(ENTRIES)
    assert len(summary["jobs"]) == 80
    home.record(MORE)
    assert home.run("once").returncode == 0
    assert home.digests() == home.expected()
    assert sealed(home.path) == [(row.payload, row.verdict) for row in [*ENTRIES, *MORE]]

    # A damaged table is what a rebuild is for.
    with sqlite3.connect(home.path / "metrics" / "metrics.db") as connection:
        connection.execute("UPDATE window_counts SET events = events + 1")
    rebuilt = json.loads(home.run("rebuild", "--json").stdout)
    assert (rebuilt["identical"], rebuilt["changed"]) == (False, ["windows"])
    assert home.digests() == home.expected()
    assert sealed(home.path) == [(row.payload, row.verdict) for row in [*ENTRIES, *MORE]]

    status = json.loads(home.run("status", "--json").stdout)
    assert (status["running"], status["journals"][0]["backlog"]) == (False, 0)
    shown = home.run("show", "--minutes", "10000000")
    assert "Open jobs" in shown.stdout
    assert "\x1b" not in shown.stdout
    picture = home.path / "fleet.png"
    assert home.run("plot", "--out", str(picture), "--minutes", "10000000").returncode == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_run_follows_and_ends_on_sigterm(home: Any) -> None:
    """`run` counts what comes while it runs, tells its status, refuses a second one, and ends cleanly."""
    home.record(ENTRIES[:100])
    child = home.start("run", "--trigger", "0.1")
    wait_for(lambda: home.counted() == 100, deadline_seconds=120, what="the first rows")
    home.record(ENTRIES[100:])
    wait_for(lambda: home.counted() == len(ENTRIES), deadline_seconds=60, what="the other rows")
    second = home.run("once")
    assert second.returncode == ExitCode.CONFLICT
    assert "already computes the metrics" in second.stderr
    status = json.loads(home.run("status", "--json").stdout)
    assert status["running"]
    wait_for(
        lambda: json.loads(home.run("status", "--json").stdout)["last_batch"],
        what="health",
    )
    child.send_signal(signal.SIGTERM)
    _, errors = child.communicate(timeout=90)
    assert child.returncode == 0, errors
    assert "Spark 4" in errors
    assert not any(word in errors for word in ("WARN", "Exception", "Traceback"))
    assert home.digests() == home.expected()


def test_what_is_damaged_costs_a_message_and_what_is_lost_is_not_skipped(home: Any, tmp_path: Path) -> None:
    """A torn checkpoint is nothing; a recreated journal ends the run with the remedy, or adds its rows."""
    home.record(ENTRIES[:200])
    assert home.run("once", "--history", "").returncode == 0

    offsets = home.path / "metrics" / "checkpoint" / "offsets"
    max(offsets.iterdir(), key=lambda path: int(path.name)).write_bytes(b"")
    home.record(ENTRIES[200:300])
    again = home.run("once", "--history", "")
    assert again.returncode == 0, again.stderr
    assert home.digests() == home.expected()

    segment = min((home.path / "journal").glob("*.seg"))
    content = bytearray(segment.read_bytes())
    content[-100] ^= 1
    segment.write_bytes(content)
    skipped = home.run("rebuild", "--history", "")
    assert skipped.returncode == 0, skipped.stderr
    assert "damaged, and counted as such" in skipped.stderr
    assert home.counted() == 300

    before = home.counted()
    (home.path / "journal").rename(tmp_path / "old-journal")
    home.record(ENTRIES[:30])
    refused = home.run("once", "--history", "")
    assert refused.returncode == ExitCode.INTERNAL
    assert "--allow-data-loss" in refused.stderr
    assert home.counted() == before
    allowed = home.run("once", "--history", "", "--allow-data-loss")
    assert allowed.returncode == 0, allowed.stderr
    assert home.counted() == before + 30


def test_what_stands_in_the_way_is_said_in_one_sentence(home: Any) -> None:
    """No Java, an old one, no journal, an unwritable place, a password in argv: exit code and remedy."""
    nothing = home.run("once")
    assert nothing.returncode == ExitCode.NOT_FOUND
    assert "no journal in" in nothing.stderr
    home.record(ENTRIES[:10])
    programs = home.path / "programs"
    programs.mkdir()
    without = home.run("once", PATH=str(programs), JAVA_HOME="")
    assert without.returncode == ExitCode.INVALID
    assert "needs Java" in without.stderr
    assert "apt-get install" in without.stderr
    old = programs / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    old.chmod(0o755)
    too_old = home.run("once", PATH=f"{programs}:/bin:/usr/bin", JAVA_HOME="", PYSPARK_PYTHON="")
    assert too_old.returncode == ExitCode.INVALID
    assert "is Java 8" in too_old.stderr
    secret = home.run("once", "--sink", "postgresql://me:geheim@127.0.0.1/x")
    assert secret.returncode == ExitCode.INVALID
    assert "geheim" not in secret.stderr
    blocked = home.run("once", "--history", "/proc/nowhere/history")
    assert blocked.returncode == ExitCode.INVALID
    keyless = home.run("once", "--verify", JOBWIRE_KEYS_FILE="")
    assert "JOBWIRE_KEYS_FILE" in keyless.stderr
    assert home.run("once", "--home").returncode == ExitCode.INVALID


def test_keys_file_is_private(home: Any) -> None:
    """`keys` writes every job's tokens, readable by the owner only, and prints none."""
    done = home.run("keys", "--out", str(home.path / "keys.json"), "--json")
    assert json.loads(done.stdout)["jobs"] == 0
    assert (home.path / "keys.json").stat().st_mode & 0o777 == 0o600
