"""Answers in a home: under the record's lock, in the history, and after a crash in between."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from jobwire.core.errors import ConflictError
from jobwire.core.lease import LeaseGrant
from jobwire.core.override import override
from jobwire.jobs import fold
from jobwire.jobs.event import Event
from jobwire.jobs.record import JobRecord
from jobwire.jobs.requests import Answer, RequestState
from jobwire.registry import present
from jobwire.registry.queue import JobQueue
from jobwire.registry.store import RecordStore
from jobwire.storage.files import SystemFiles
from jobwire.testing import ManualClock

Say = Callable[..., tuple[Event, bytes]]
YES = Answer("yes", "ann", "command")


@pytest.fixture
def asking(store: RecordStore, job: JobRecord, say: Say) -> str:
    """Give a job that asks one question, `a`, and may be asked for 300 s."""
    with store.locked(job.job_id) as locked:
        locked.replace(fold.claim(job, LeaseGrant("w", 600), store.clock.now()), cause="claimed")
    store.apply(job.job_id, *say(job, 1, "started"), source="publisher")
    body = {"id": "a", "kind": "question", "text": "go on?", "timeout_seconds": 300}
    store.apply(job.job_id, *say(job, 2, "permission_required", request=body), source="publisher")
    return job.job_id


def give(store: RecordStore, job_id: str, answer: Answer) -> JobRecord:
    """Answer `a` as every way of answering does."""
    with store.locked(job_id) as locked:
        after = fold.answer(locked.record, "a", answer, store.clock.now())
        return locked.replace(after, cause="an answer", source=answer.through)


def test_an_answer_stands_in_the_history_with_who_and_after_how_long(
    store: RecordStore, asking: str, clock: ManualClock
) -> None:
    """One line: what was answered, by whom, through what, after how many seconds."""
    clock.advance(41)
    give(store, asking, YES)
    line = store.audit(asking).last() or {}
    assert {name: line[name] for name in ("kind", "request", "before", "after", "by", "through")} == {
        "kind": "request",
        "request": "a",
        "before": "open",
        "after": "answered",
        "by": "ann",
        "through": "command",
    }
    assert (line["answer"], line["seconds"]) == ("yes", 41.0)
    assert "request a" in present.history_row(line)[-1]


class _Torn(SystemFiles):
    """A disk that loses its process between the history's line and the record."""

    @override
    def rename_all(self, pairs: Sequence[tuple[str, str]], folders: Sequence[str]) -> None:  # noqa: ARG002
        raise KeyboardInterrupt


def test_an_answer_cut_short_between_history_and_record_is_the_answer(
    home: Path, clock: ManualClock, asking: str, store: RecordStore
) -> None:
    """Whoever takes the lock next finishes it; another answer comes too late, and stands nowhere."""
    with pytest.raises(KeyboardInterrupt):
        give(RecordStore(home, clock=clock, files=_Torn()), asking, YES)
    assert store.get(asking).attention
    with pytest.raises(ConflictError, match="ann"):
        give(store, asking, Answer("no", "bob", "page"))
    record = store.get(asking)
    assert (record.requests[0].answer, record.requests[0].state) == ("yes", RequestState.ANSWERED)
    lines = [json.loads(line) for line in Path(store.audit(asking).events_path).read_text().splitlines()]
    assert [line["answer"] for line in lines if line["kind"] == "request"] == ["yes"]


@pytest.mark.parametrize("damage", [{"answer": None}, {"by": 7}, {"at": "yesterday"}, {"at": None}])
def test_a_damaged_answer_in_the_history_holds_nobody_up(
    store: RecordStore, asking: str, damage: dict[str, object]
) -> None:
    """Who takes the record next goes on with an open question, whatever the last line lacks."""
    open_record = Path(store.record_path(asking)).read_bytes()
    give(store, asking, YES)
    path = Path(store.audit(asking).events_path)
    *lines, last = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines, json.dumps({**json.loads(last), **damage})]) + "\n", encoding="utf-8")
    Path(store.record_path(asking)).write_bytes(open_record)
    with RecordStore(store.home, clock=store.clock).locked(asking) as locked:
        assert locked.record.requests[0].state is RequestState.OPEN


def test_a_request_that_nobody_answers_in_time_is_expired_by_the_registry(
    queue: JobQueue, store: RecordStore, asking: str, clock: ManualClock
) -> None:
    """Also where whoever asked is gone: the job does not wait for a person for ever."""
    clock.advance(299)
    assert queue.reap() == []
    clock.advance(1)
    assert [one.cause for one in queue.reap()] == ["nobody answered in time"]
    record = store.get(asking)
    assert (record.requests[0].state, record.attention) == (RequestState.EXPIRED, False)
    assert (store.audit(asking).last() or {})["after"] == "expired"
