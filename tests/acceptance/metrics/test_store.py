"""`jobwire metrics` with its history on an S3 store, which may be away."""

import json
import signal
from typing import Any

import pytest

from jobwire.core.clock import SystemClock
from jobwire.core.exit_codes import ExitCode
from jobwire.journal.history import History
from jobwire.journal.reader import JournalReader
from jobwire.journal.retention import Retention, RetentionPolicy
from jobwire.testing.object_store import ObjectStore
from jobwire.testing.rehearsal import Rehearsal
from jobwire.testing.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ENTRIES = list(Rehearsal(seed=84, jobs=60, active=20))
MORE = list(Rehearsal(seed=85, jobs=10))


def test_the_history_lives_on_a_store(home: Any, object_store: ObjectStore) -> None:
    """What was pruned is read from the store; while that is away a run counts, and then seals the rest."""
    home.record(ENTRIES, segment_bytes=20_000)
    expected = home.expected()
    place = ("--history", object_store.uri())
    once = home.run("once", *place)
    assert once.returncode == 0, once.stderr
    assert home.digests() == expected
    Retention(home.journal, clock=SystemClock(), limits=RetentionPolicy(keep_bytes=0)).prune()
    with JournalReader(home.journal) as reader:
        assert reader.first_offset > 100
        identity = reader.identity
    rebuilt = home.run("rebuild", "--json", *place)
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert json.loads(rebuilt.stdout) == json.loads(rebuilt.stdout) | {
        "rows": len(ENTRIES),
        "identical": True,
    }

    object_store.kill()
    away = home.run("once", *place)
    assert away.returncode == ExitCode.INTERNAL
    assert "connect" in away.stderr
    assert "see that the store runs" in away.stderr
    home.record(MORE)
    (home.path / "jobwire.toml").write_text("[metrics]\nhistory_seconds = 1\n")
    with (home.path / "run.log").open("w+") as log:
        child = home.start("run", *place, errors=log)
        told = home.path / "run.log"
        wait_for(lambda: home.counted() == len(ENTRIES) + len(MORE), deadline_seconds=240, what="the rows")
        wait_for(
            lambda: "keeps what is not sealed" in told.read_text(), deadline_seconds=120, what="the note"
        )
        object_store.start()
        history = History(object_store.uri())
        end = len(ENTRIES) + len(MORE)
        wait_for(lambda: history.sealed(identity)[-1].end_offset == end, step_seconds=0.2, what="the seal")
        child.send_signal(signal.SIGTERM)
        assert child.wait(90) == 0
        said = once.stderr + rebuilt.stderr + away.stderr + told.read_text()
    assert object_store.environ["AWS_SECRET_ACCESS_KEY"] not in said
