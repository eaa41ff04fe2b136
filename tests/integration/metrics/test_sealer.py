"""When a run seals, what retention may take then, and what happens while the place is full or away."""

import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from jobwire.core.errors import StorageError
from jobwire.journal.consumers import Consumers
from jobwire.journal.history import History
from jobwire.journal.reader import JournalReader
from jobwire.journal.retention import Retention, RetentionPolicy
from jobwire.metrics.pipeline import Journal, open_journals
from jobwire.metrics.sealer import Sealer
from jobwire.metrics.settings import MetricsSettings
from jobwire.metrics.sink import AppliedRange
from jobwire.testing import ManualClock
from jobwire.testing.object_store import ObjectStore
from jobwire.testing.rehearsal import Rehearsal

ENTRIES = list(Rehearsal(seed=83, jobs=30, active=10))


class Run:
    """A sealer with what it was given and what it said."""

    def __init__(self, folder: Path, journal: Path) -> None:
        self.settings = MetricsSettings(folder, (journal,), "", None, history_seconds=600)
        self.clock, self.notes = ManualClock(), list[str]()
        self.use(str(folder / "history"))
        self.journals: list[Journal] = open_journals(self.settings, {})

    def use(self, history: str) -> None:
        """Seal there from now on."""
        self.settings = self.settings._replace(history=history)
        stop = threading.Event()
        self.sealer = Sealer(self.settings, note=self.notes.append, stop=stop, clock=self.clock)

    def sealed(self) -> int:
        """Return how far the journal is sealed."""
        files = History(str(self.settings.history)).sealed(self.journals[0].identity)
        return files[-1].end_offset if files else 0


@pytest.fixture
def run(make_journal: Callable[..., Path], tmp_path: Path) -> Run:
    """Give a run over a journal of several segments."""
    return Run(tmp_path, make_journal(ENTRIES, segment_bytes=20_000))


def test_closed_segments_soon_the_growing_one_later(run: Run) -> None:
    """Nothing at once, closed segments after a minute, the rest after history_seconds."""
    run.sealer.seal(run.journals)
    assert run.sealed() == 0
    run.clock.advance(61)
    run.sealer.seal(run.journals)
    closed = run.sealed()
    assert 0 < closed < len(ENTRIES)
    run.clock.advance(600)
    run.sealer.seal(run.journals)
    assert run.sealed() == len(ENTRIES)


def test_what_is_sealed_may_be_pruned_and_nothing_else(run: Run) -> None:
    """Retention waits for the seal and for nothing more: tables that are behind read the files."""
    journal = run.settings.journals[0]
    retention = Retention(journal, clock=run.clock, limits=RetentionPolicy(keep_bytes=0))
    Consumers(journal).register("metrics")
    assert not retention.prune().segments
    run.sealer.seal(run.journals, now=True)
    assert {place.offset for place in Consumers(journal).all()} == {len(ENTRIES)}
    assert retention.prune().segments
    with JournalReader(journal) as reader:
        assert reader.first_offset > 0
    assert open_journals(run.settings, {})[0].start == 0


def test_a_store_that_is_away_is_noted_and_comes_back(run: Run, object_store: ObjectStore) -> None:
    """While a store is away, a run begins, goes on and says so; `now` it is an error; then all is sealed."""
    run.use(object_store.uri())
    object_store.kill()
    run.clock.advance(61)
    run.sealer.seal(run.journals)
    (note,) = run.notes
    assert re.fullmatch(
        r"cannot list s3://.* connect .* \(see that .*\); the journal keeps what is not sealed", note
    )
    with pytest.raises(StorageError):
        run.sealer.seal(run.journals, now=True)
    assert {place.offset for place in Consumers(run.settings.journals[0]).all()} == {0}
    known = {run.journals[0].identity: AppliedRange(0, 7, 0)}
    assert open_journals(run.settings, known)[0].start == 7
    object_store.start()
    run.sealer.seal(run.journals, now=True)
    assert run.sealed() == len(ENTRIES)
