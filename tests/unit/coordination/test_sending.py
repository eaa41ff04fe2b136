"""A message is in the store once, numbered, addressed, and found again."""

import sqlite3
from pathlib import Path

import pytest

from jobwire.coordination import reading, sending, taking
from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.message import MAX_BULK, MAX_INLINE, NewMessage
from jobwire.coordination.store import CoordinationStore
from jobwire.core.errors import ConflictError, InvalidInputError, NotFoundError, StorageError
from jobwire.storage.file_lock import LockTimeoutError

TASK = NewMessage(
    "lead", ("builder",), kind="task", subject="fix the parser", body="it breaks on empty files"
)


def test_a_message_has_the_number_of_its_event(store: CoordinationStore) -> None:
    """A message's seq is the event_id of its arrival, and every later change has a higher number."""
    first = sending.send(store, TASK)
    with store.changing() as change:
        number = change.event("thing", source="lead")
    second = sending.send(store, TASK)
    assert (first.event_id, number, second.event_id) == (1, 2, 3)
    assert [reading.message_of(store, one.message_id).seq for one in (first, second)] == [1, 3]
    assert store.latest_event() == 3


def test_the_same_message_again_is_there_once(store: CoordinationStore) -> None:
    """Same id and same content is a success that says so; other content is a conflict; nothing is added."""
    first = sending.send(store, TASK._replace(id="m1"))
    again = sending.send(store, TASK._replace(id="m1"))
    assert again == first._replace(duplicate=True)
    with pytest.raises(ConflictError) as caught:
        sending.send(store, TASK._replace(id="m1", body="other"))
    assert caught.value.facts["code"] == "duplicate_id"
    assert len(reading.messages_of(store, first.thread_id)) == 1


@pytest.mark.parametrize(("size", "inline"), [(MAX_INLINE, True), (MAX_INLINE + 1, False)])
def test_bodies_beyond_4096_bytes_are_blobs(store: CoordinationStore, size: int, inline: bool) -> None:
    """4,096 bytes stand in the row, one more in a blob; both come back whole."""
    body, payload = "b" * size, '"' + "p" * (size - 2) + '"'
    sent = sending.send(store, TASK._replace(body=body, payload=payload))
    found = reading.message_of(store, sent.message_id)
    assert (found.body_ref is None, found.payload_ref is None) == (inline, inline)
    blobs = BlobFolder(store.home)
    assert (found.full_body(blobs), found.full_payload(blobs)) == (body, payload)


def test_a_blob_that_was_changed_or_removed_is_an_error(store: CoordinationStore) -> None:
    """What a blob holds is checked on reading: 50 where it was changed, blob_missing where it is gone."""
    found = reading.message_of(store, sending.send(store, TASK._replace(body="b" * 5000)).message_id)
    blobs = BlobFolder(store.home)
    assert found.body_ref is not None
    with open(blobs.path(found.body_ref), "r+b") as file:  # noqa: PTH123
        file.write(b"x")
    with pytest.raises(StorageError, match="was changed"):
        found.full_body(blobs)
    blobs._files.unlink(blobs.path(found.body_ref))
    with pytest.raises(NotFoundError) as caught:
        found.full_body(blobs)
    assert caught.value.facts["code"] == "blob_missing"


def test_blobs_are_collected_once_nothing_refers_to_them(store: CoordinationStore) -> None:
    """A blob without a message goes, if it is not young; one that is referred to stays."""
    found = reading.message_of(store, sending.send(store, TASK._replace(body="b" * 5000)).message_id)
    blobs = BlobFolder(store.home)
    orphan = blobs.put(b"nobody's")
    assert blobs.collect(store) == 0
    assert blobs.collect(store, older_seconds=-1) == 1
    assert found.full_body(blobs) == "b" * 5000
    with pytest.raises(NotFoundError):
        blobs.get(orphan)


@pytest.mark.parametrize(
    "new",
    [
        TASK._replace(from_agent="0a1b2c3d"),
        TASK._replace(to=("no spaces",)),
        TASK._replace(kind="none"),
        TASK._replace(summary="two\nlines"),
        TASK._replace(summary="s" * 1025),
        TASK._replace(id="i" * 65),
        TASK._replace(payload="{"),
        TASK._replace(payload="NaN"),
        TASK._replace(payload="[" * 200 + "]" * 200),
        TASK._replace(body="b" * (MAX_BULK + 1)),
        TASK._replace(body="half a pair: \ud800"),
        TASK._replace(body="\0"),
        TASK._replace(hop=9),
        TASK._replace(type="t\x1b[2J"),
    ],
)
def test_what_no_reader_takes_is_refused_and_nothing_is_stored(
    store: CoordinationStore, new: NewMessage
) -> None:
    """Each bad field is 30, and the store is as it was."""
    with pytest.raises(InvalidInputError):
        sending.send(store, new)
    assert store.latest_event() == 0


def test_the_largest_body_is_taken(store: CoordinationStore) -> None:
    """A body of exactly 16 MiB goes in and comes out."""
    sent = sending.send(store, TASK._replace(body="b" * MAX_BULK))
    assert len(reading.message_of(store, sent.message_id).full_body(BlobFolder(store.home))) == MAX_BULK


def test_empty_payloads_survive(store: CoordinationStore) -> None:
    """{} and [] and 0 and "" are payloads; none at all is None."""
    for text in ("{}", "[]", "0", '""', None):
        sent = sending.send(store, TASK._replace(payload=text))
        assert reading.message_of(store, sent.message_id).payload == text


def test_everybody_is_the_run_but_the_sender(store: CoordinationStore, foreign: sqlite3.Connection) -> None:
    """`*` is fixed at sending: the run's agents that are here, without the sender."""
    for name, run, left in (("a", "r", None), ("b", "r", None), ("c", "r", 5), ("d", "other", None)):
        foreign.execute(
            "INSERT INTO agents (agent_id, run_id, joined_at_ms, left_at_ms) VALUES (?, ?, 1, ?)",
            (name, run, left),
        )
    sent = sending.send(store, NewMessage("a", ("*",), run_id="r", summary="all"))
    assert reading.message_of(store, sent.message_id).to == ("b",)


def test_an_answer_goes_into_the_thread_of_its_question(store: CoordinationStore) -> None:
    """in_reply_to finds the thread; a thread or message that is not there is 40."""
    sent = sending.send(store, TASK)
    reply = sending.send(
        store, NewMessage("builder", ("lead",), kind="answer", summary="yes", in_reply_to=sent.message_id)
    )
    assert reply.thread_id == sent.thread_id
    for wrong in (TASK._replace(thread_id="t-none"), TASK._replace(in_reply_to="m-none")):
        with pytest.raises(NotFoundError):
            sending.send(store, wrong)


def test_words_of_body_and_payload_are_found(store: CoordinationStore, foreign: sqlite3.Connection) -> None:
    """Search finds words of summary, body and payload, newest first, also of another program's message."""
    first = sending.send(store, TASK._replace(payload='{"deep": "Öresund"}'))
    foreign.execute(
        "INSERT INTO messages (id, ts_ms, from_agent, to_agent, type, payload)"
        " VALUES ('f', 1, 'x', 'builder', 'note', ?)",
        ('{"text": "parser of theirs"}',),
    )
    assert [one.id for one in reading.search(store, "parser")] == ["f", first.message_id]
    assert [one.id for one in reading.search(store, "oresund")] == [first.message_id]
    assert [one.id for one in reading.search(store, '"empty files"')] == [first.message_id]
    assert reading.search(store, "files empty nothing") == []
    assert [one.id for one in reading.search(store, "pars*")] == ["f", first.message_id]


@pytest.mark.parametrize(
    "words", ['" OR "', "a AND (b", "NEAR(x y)", "summary:fix", "-x", "'; DROP TABLE messages"]
)
def test_no_operator_acts_in_a_search(store: CoordinationStore, words: str) -> None:
    """What FTS5 takes for its language is searched for as words, or refused as none."""
    sending.send(store, TASK)
    if any(map(str.isalnum, words.replace('" OR "', " "))):
        assert reading.search(store, words) == []
    assert len(reading.search(store, "parser")) == 1


def test_a_store_that_another_program_locks_is_read_and_not_written(
    store: CoordinationStore, foreign: sqlite3.Connection
) -> None:
    """Who writes waits for its deadline and is told who holds it; reading goes on."""
    posted = sending.send(store, TASK)
    patient = CoordinationStore(store.home, deadline_seconds=0.05)
    foreign.execute("BEGIN IMMEDIATE")
    with pytest.raises(LockTimeoutError):
        sending.send(patient, TASK)
    assert reading.message_of(patient, posted.message_id).seq == posted.event_id
    foreign.execute("ROLLBACK")
    assert sending.send(patient, TASK).event_id == posted.event_id + 1
    patient.close()


def test_a_frozen_store_is_read_and_not_changed(store: CoordinationStore) -> None:
    """Where nothing can be written, what is there can be read, and nothing is made beside it."""
    posted = sending.send(store, TASK)
    store.close()
    frozen = CoordinationStore(store.home, frozen=True)
    assert reading.fetch(frozen, "builder")[0].thread_id == posted.thread_id
    assert not Path(f"{store.path}-shm").exists()
    with pytest.raises(StorageError):
        sending.send(frozen, TASK)
    frozen.close()


def test_order_within_a_thread_is_kept(store: CoordinationStore) -> None:
    """A message that fails holds back its own thread only."""
    first = sending.send(store, TASK)
    sending.send(store, TASK._replace(thread_id=first.thread_id))
    other = sending.send(store, TASK)
    held = taking.take(store, "builder")
    taking.nack(store, "builder", held.message.id, "not now")
    assert taking.take(store, "builder").message.id == other.message_id
