"""The examination sees what it is there for: losses, doubles, damage, wrong records and verdicts."""

from collections.abc import Sequence
from pathlib import Path

from jobwire.core.signature import new_token
from jobwire.jobs.event import compose, encode_signed
from jobwire.jobs.record import JobRecord
from jobwire.journal.entry import Entry
from jobwire.journal.writer import JournalWriter
from jobwire.registry.store import RecordStore
from jobwire.testing import ManualClock
from tests.faults.storm.drivers import Job
from tests.faults.storm.findings import Breaches, examine
from tests.faults.storm.ledger import Ledger
from tests.faults.storm.plan import JobPlan, Voice
from tests.faults.storm.watchers import Watched

_JOB = "0000000a"
_WORDS = ("started", "progress", "completed")
_STAMP = "2026-01-01T00:00:00.000Z"
_GOOD = Watched(_JOB, (1, 2, 3), ("completed",), (0,), 0, first=True, errors="")


def _examine(tmp_path: Path, journaled: Sequence[int], watched: Watched = _GOOD) -> Breaches:
    """Examine a job whose three events were acknowledged and applied, with these seqs in the journal."""
    store = RecordStore(tmp_path / "home")
    record = JobRecord(_JOB, new_token(), _STAMP, _STAMP)
    store.create(record)
    entries = {}
    for seq, word in enumerate(_WORDS, 1):
        event = compose(seq=seq, job_id=_JOB, event=word, timestamp=_STAMP, detail="", data={"step": seq})
        payload = encode_signed(event, record.auth_token)
        store.apply(_JOB, event, payload, source="test")
        entries[seq] = Entry(seq, f"root/{_JOB}/events", payload, False, "accepted")
    with JournalWriter(tmp_path / "journal", clock=ManualClock()) as writer:
        writer.append([entries[seq] for seq in journaled])
    ledger = Ledger(tmp_path / "journal", {_JOB})
    ledger.update()
    job = Job(JobPlan(0, Voice.COMMAND, 3, "completed"), _JOB, None)
    return examine([job], acknowledged={_JOB: {1, 2, 3}}, ledger=ledger, store=store, watched=[watched])


def test_a_good_run_has_no_breach(tmp_path: Path) -> None:
    """Three events, each in the journal once, and a right verdict: nothing to say."""
    assert not _examine(tmp_path, [1, 2, 3]).any


def test_a_lost_event_is_seen(tmp_path: Path) -> None:
    """An acknowledged event that the journal does not have is lost, whatever the record says."""
    [sentence] = _examine(tmp_path, [1, 3]).lost
    assert "seq 2" in sentence


def test_a_doubled_event_is_seen(tmp_path: Path) -> None:
    """An event that was accepted twice is doubled."""
    [sentence] = _examine(tmp_path, [1, 2, 2, 3]).doubled
    assert "seq 2" in sentence


def test_a_wrong_verdict_is_seen(tmp_path: Path) -> None:
    """No verdict, two of them, a wrong one, or a wrong exit code: each is a breach."""
    wrong = [
        _GOOD._replace(verdicts=(), verdict_codes=()),
        _GOOD._replace(verdicts=("completed", "completed"), verdict_codes=(0, 0)),
        _GOOD._replace(verdicts=("error",)),
        _GOOD._replace(exit_code=1),
        _GOOD._replace(seqs=(1, 2, 2, 3)),
    ]
    for number, watched in enumerate(wrong):
        (tmp_path / str(number)).mkdir()
        assert _examine(tmp_path / str(number), [1, 2, 3], watched).verdicts
