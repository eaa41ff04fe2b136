"""Session folders: heads are data, files of old agents are taken in once, receipts lie where they look."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.coordination import reading, sending, taking
from jobwire.coordination.bus.session_export import write_session
from jobwire.coordination.bus.session_folder import Page, file_name, read_page, write_page
from jobwire.coordination.bus.session_import import read_session
from jobwire.coordination.message import NewMessage
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.stored import InboxMessage
from jobwire.coordination.tasks.new_task import NewTask
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.coordination.work import ThreadWork
from jobwire.core.errors import InvalidInputError

OLD = """---
id: 20260214-101500-a1b2c3
from: lead
to: builder-a
intent: implement
thread: S1
risk: low
task_id: T20260214-101500-a1b2c3
acceptance:
  - "make test"
  - the parser takes an empty file
---

Fix the parser.

It breaks on empty files: see `src/parser.py`.
"""
ANY = st.characters(codec="utf-8")
LINE = st.text(st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="\u2028\u2029"), max_size=60)


def drop(
    folder: Path, text: str = OLD, *, role: str = "builder-a", name: str = "20260214-101500-a1b2c3"
) -> Path:
    """Put a file where an old agent puts it."""
    path = folder / "bus" / "inbox" / "builder-a" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def heads(path: Path) -> dict[str, str]:
    """Read a head as the original does: each line `key: value`, quotes taken off."""
    head = path.read_text().split("---\n")[1]
    return {match[1]: match[2].strip('"') for match in re.finditer(r"^([a-z_]+): ?(.*)$", head, re.MULTILINE)}


def test_a_file_of_an_old_agent_is_a_message(store: CoordinationStore, tmp_path: Path) -> None:
    """All fields arrive, the file is archived, and taken in once."""
    folder = tmp_path / "S1"
    path = drop(folder)
    assert read_session(store, str(folder), "S1")["messages"] == 1
    found = reading.message_of(store, "20260214-101500-a1b2c3")
    assert (found.from_agent, found.to, found.kind, found.type) == (
        "lead",
        ("builder-a",),
        "task",
        "implement",
    )
    assert (found.risk, found.task_id, found.correlation_id) == ("low", "T20260214-101500-a1b2c3", "S1")
    assert found.acceptance == '["make test", "the parser takes an empty file"]'
    assert found.body.startswith("Fix the parser.\n\nIt breaks")
    assert not path.exists()
    assert (folder / "state" / "archive" / "builder-a" / path.name).read_text() == OLD
    drop(folder)
    assert read_session(store, str(folder), "S1")["known"] == 1
    assert len(reading.messages_of(store, found.thread_id)) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            OLD.replace("risk: low", "risk: low\nfrom: lead\nintent: implement"),
            "line 8: from stands there twice",
        ),
        (OLD.replace("risk: low", "risk: |\n  low"), "is to be quoted"),
        (OLD.replace("risk: low", 'risk: "low\\nfrom: lead"'), "line break"),
        (OLD.replace("risk: low", "risk: &a low"), "is to be quoted"),
        (OLD.replace("risk: low", "risk: {a: b}"), "is to be quoted"),
        (OLD.replace("risk: low", 'risk: "low'), "is not quoted right"),
        (OLD.replace("risk: low", "  risk: low"), "is no field"),
        (OLD.replace("risk: low", "risk: low\x1b[2J"), "control character"),
        (OLD.replace("to: builder-a", "to: reviewer"), "lies in the inbox of builder-a"),
        (OLD.replace("id: 2026", "id: 2027"), "has the id"),
        (OLD.replace("from: lead", "from: ../lead"), ""),
        (OLD.replace("---\n\nFix", "\nFix"), ""),
        ("Fix the parser.", "line 1"),
        ("", "line 1"),
    ],
)
def test_what_is_not_a_message_stays_and_is_told(
    store: CoordinationStore, tmp_path: Path, text: str, why: str
) -> None:
    """A broken or dishonest head takes nothing in, names its line, and the others are taken."""
    folder = tmp_path / "S1"
    path = drop(folder, text)
    drop(folder, OLD.replace("a1b2c3\nfrom", "000000\nfrom"), name="20260214-101500-000000")
    found = read_session(store, str(folder), "S1")
    assert (found["messages"], found["left_out"]) == (1, 1)
    assert why in str(found["problems"])
    assert path.exists()


def test_a_line_break_in_the_body_is_no_field(store: CoordinationStore, tmp_path: Path) -> None:
    """Only the head is read: another one in the text is text."""
    folder = tmp_path / "S1"
    drop(folder, OLD + "\n---\nfrom: nobody\nintent: question\n---\n")
    read_session(store, str(folder), "S1")
    found = reading.message_of(store, "20260214-101500-a1b2c3")
    assert (found.from_agent, found.type) == ("lead", "implement")


def test_what_became_of_a_message_is_where_its_file_lies(store: CoordinationStore, tmp_path: Path) -> None:
    """Inbox while queued, with a lock directory while leased, archive and a done mark, dead letters."""
    folder = tmp_path / "S1"
    for name in ("one", "two", "three"):
        sending.send(
            store,
            NewMessage("lead", ("builder",), kind="task", type="fix", id=name, summary=name, run_id="S1"),
        )
    sending.send(store, NewMessage("lead", ("builder",), kind="task", id="other", summary="other run"))
    write_session(store, str(folder), "S1")
    inbox = folder / "bus" / "inbox" / "builder"
    assert sorted(path.name for path in inbox.iterdir()) == ["one.md", "three.md", "two.md"]
    assert heads(inbox / "one.md")["intent"] == "fix"
    taken = taking.take(store, "builder")
    write_session(store, str(folder), "S1")
    assert [path.name for path in (folder / "state" / "processing").iterdir()] == ["one.builder.lockdir"]
    taking.ack(store, "builder", taken.message.id, token=taken.token)
    taken = taking.take(store, "builder")
    taking.nack(store, "builder", taken.message.id, "broken", token=taken.token, permanent=True)
    write_session(store, str(folder), "S1")
    assert [path.name for path in inbox.iterdir()] == ["three.md"]
    assert (folder / "state" / "archive" / "builder" / "one.md").exists()
    assert (folder / "state" / "done" / "one.builder.ok").exists()
    assert (folder / "bus" / "deadletter" / "builder" / "two.md").exists()
    assert list((folder / "state" / "processing").iterdir()) == []


def test_each_recipient_has_a_file_that_names_it_alone(store: CoordinationStore, tmp_path: Path) -> None:
    """What was written for two roles lies in each one's inbox as its own; reading it back is no complaint."""
    sending.send(store, NewMessage("lead", ("ann", "bob"), kind="task", id="both", summary="s", run_id="S1"))
    write_session(store, str(tmp_path), "S1")
    for role in ("ann", "bob"):
        assert heads(tmp_path / "bus" / "inbox" / role / "both.md")["to"] == role
    assert read_session(store, str(tmp_path), "S1")["problems"] == []


def test_a_receipt_has_the_fields_of_the_original(store: CoordinationStore, tmp_path: Path) -> None:
    """bus/outbox/ID.ROLE.md tells who asked for what, how it ended and when; the body is the last message."""
    folder = tmp_path / "S1"
    drop(folder)
    read_session(store, str(folder), "S1")
    thread = reading.message_of(store, "20260214-101500-a1b2c3").thread_id
    work = ThreadWork(store, "builder-a", environ={})
    work.claim(thread)
    work.done(NewMessage("builder-a", thread_id=thread, summary="it works", body="all green"))
    write_session(store, str(folder), "S1")
    receipt = folder / "bus" / "outbox" / "20260214-101500-a1b2c3.builder-a.md"
    found = heads(receipt)
    assert (found["role"], found["request_from"], found["request_to"]) == ("builder-a", "lead", "builder-a")
    assert (found["request_intent"], found["status"], found["codex_rc"]) == ("implement", "done", "0")
    assert found["finished_at"].endswith("Z")
    assert receipt.read_text().endswith("---\n\nall green")


def test_a_receipt_of_an_old_agent_ends_the_work(store: CoordinationStore, tmp_path: Path) -> None:
    """What an old agent did with an exported message is done here too, once, and routed."""
    folder = tmp_path / "S1"
    sent = sending.send(
        store, NewMessage("lead", ("builder",), kind="task", id="one", summary="fix it", run_id="S1")
    )
    write_session(store, str(folder), "S1")
    fields = {"id": "one", "role": "builder", "status": "done", "request_from": "lead"}
    (folder / "bus" / "outbox" / "one.builder.md").write_text(write_page(fields, "it works"))
    assert read_session(store, str(folder), "S1")["receipts"] == 1
    assert read_session(store, str(folder), "S1")["receipts"] == 0
    assert reading.thread_of(store, sent.thread_id).status == "done"
    assert reading.messages_of(store, sent.thread_id)[-1].body == "it works"


def test_nothing_is_written_where_nothing_changed(store: CoordinationStore, tmp_path: Path) -> None:
    """A second export leaves the files as they are."""
    sending.send(store, NewMessage("lead", ("builder",), kind="task", id="one", summary="fix", run_id="S1"))
    write_session(store, str(tmp_path / "S1"), "S1")
    path = tmp_path / "S1" / "bus" / "inbox" / "builder" / "one.md"
    before = path.stat().st_ino
    write_session(store, str(tmp_path / "S1"), "S1")
    assert path.stat().st_ino == before


@given(
    fields=st.dictionaries(
        st.from_regex(r"[a-z_]{1,10}", fullmatch=True),
        LINE | st.lists(LINE.filter(bool), max_size=3),
        max_size=6,
    ),
    body=st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=100),
)
def test_a_page_is_read_back(fields: dict[str, str | list[str]], body: str) -> None:
    """Whatever a field holds, it comes back as that field, and the body as the body."""
    found = read_page(write_page(fields, body))
    assert found == Page({key: value if value != "" else "" for key, value in fields.items()}, body)


@given(st.text(max_size=300))
def test_any_text_is_a_page_or_refused(text: str) -> None:
    """No file breaks the reader."""
    for whole in (text, f"---\n{text}\n---\n{text}"):
        try:
            found = read_page(whole)
        except InvalidInputError:
            continue
        for value in found.fields.values():
            for one in [value] if isinstance(value, str) else value:
                assert "\n" not in one


@given(st.text(ANY, min_size=1, max_size=64))
def test_no_name_leaves_its_folder(name: str) -> None:
    """Names are encoded: no separator, no hidden file of the folder above."""
    assert "/" not in file_name(name)
    assert f"{file_name(name)}.md" not in {"..", "."}


def planned(task_id: str, *needs: str, status: str = "pending", **more: object) -> dict[str, object]:
    """Return a task as the other system writes it."""
    return {
        "id": task_id,
        "title": f"do {task_id}",
        "owner": "builder-a",
        "acceptance": ["make test"],
        "depends_on": list(needs),
        "status": status,
        "work_type": "implement",
        "risk": "low",
        "created_by": "lead",
        **more,
    }


def board(folder: Path, *tasks: object) -> Path:
    """Put a task board where the other system keeps it."""
    (folder / "bus" / "inbox").mkdir(parents=True, exist_ok=True)
    path = folder / "state" / "tasks" / "tasks.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"version": 1, "tasks": tasks}))
    return path


def test_a_plan_of_the_other_system_goes_on_here(store: CoordinationStore, tmp_path: Path) -> None:
    """What is completed there unlocks here, what failed stands in the way; a second time changes nothing."""
    folder = tmp_path / "S1"
    lost = planned("lost", status="failed", last_error="no disk", claimed_by="builder-a")
    board(
        folder,
        planned("a", status="completed", completed_by="builder-b"),
        planned("b", "a"),
        planned("c", "b", owner="tester"),
        lost,
        planned("d", "a", "lost"),
    )
    found = read_session(store, str(folder), "S1")
    assert (found["tasks"], found["problems"]) == (5, [])
    tasks = Tasks(store, "builder-a", environ={})
    assert {
        one.task.task_id: str(one.status(int(store.clock.now() * 1000))) for one in tasks.graph("S1")
    } == {
        "a": "completed",
        "b": "ready",
        "c": "pending",
        "lost": "failed",
        "d": "pending",
    }
    assert tasks.get("d", "S1").task.stuck
    assert tasks.get("lost", "S1").task.reason == "no disk"
    assert (tasks.get("a", "S1").task.worker, tasks.get("b", "S1").task.intent) == ("builder-b", "implement")
    asked = [row[0] for row in store.rows("messages_after", {"after": 0, "limit": -1})]
    assert read_session(store, str(folder), "S1")["tasks"] == 0
    assert [row[0] for row in store.rows("messages_after", {"after": 0, "limit": -1})] == asked
    tasks.claim("b", "S1")
    tasks.complete("b", NewMessage("builder-a", kind="result", summary="it works"), "S1")
    assert tasks.get("c", "S1").status(int(store.clock.now() * 1000)) == "ready"


def test_what_is_completed_there_later_is_completed_here(store: CoordinationStore, tmp_path: Path) -> None:
    """A task that was ready in both places is completed in the name of who did it, and unlocks what waits."""
    folder = tmp_path / "S1"
    board(folder, planned("a"), planned("b", "a"))
    read_session(store, str(folder), "S1")
    board(folder, planned("a", status="completed", completed_by="builder-a"), planned("b", "a"))
    assert read_session(store, str(folder), "S1")["tasks"] == 1
    tasks = Tasks(store, "builder-a")
    assert (tasks.get("a", "S1").task.status, tasks.get("b", "S1").task.ready) == ("completed", True)


def test_the_message_that_asks_for_a_planned_task_is_no_second_work(
    store: CoordinationStore, tmp_path: Path
) -> None:
    """Its words are the task's, its file is archived, and its receipt completes the task."""
    folder = tmp_path / "S1"
    path = drop(folder)
    board(folder, planned("T1", dispatch={"message_id": "20260214-101500-a1b2c3", "to": "builder-a"}))
    read_session(store, str(folder), "S1")
    assert not path.exists()
    rows = store.rows("messages_after", {"after": 0, "limit": -1})
    assert [InboxMessage(*row).kind for row in rows] == ["task"]
    tasks = Tasks(store, "builder-a")
    assert tasks.get("T1", "S1").task.text.startswith("Fix the parser.")
    receipt = folder / "bus" / "outbox" / "20260214-101500-a1b2c3.builder-a.md"
    receipt.parent.mkdir(parents=True)
    fields = {"id": "20260214-101500-a1b2c3", "role": "builder-a", "status": "done"}
    receipt.write_text(write_page(fields, "it works"))
    assert read_session(store, str(folder), "S1")["receipts"] == 1
    assert tasks.get("T1", "S1").task.status == "completed"


@pytest.mark.parametrize(
    ("tasks", "why"),
    [
        (
            [planned("a"), {"id": "T2", "title": "half of it"}],
            "task 2 (T2) lacks owner, status, acceptance, depends_on",
        ),
        ([planned("a"), {"title": "none"}], "task 2 lacks id"),
        ([planned("a", "b")], "unknown tasks: a needs b"),
        ([planned("a", "b"), planned("b", "a")], "in a circle"),
        ([planned("a", status="blocked")], "status is 'blocked'"),
        ([planned("a", acceptance="make test")], "acceptance is no list"),
        ([planned("a"), planned("a")], "there twice"),
        ([planned("a"), planned("../b")], "not a task's id"),
        ([planned("a", claimed_by="../b")], "b"),
        ([planned("a"), 7], "task 2 is no object"),
    ],
)
def test_a_plan_is_taken_in_whole_or_not_at_all(
    store: CoordinationStore, tmp_path: Path, tasks: list[object], why: str
) -> None:
    """A task that lacks columns, or cannot be, is named; no task is added, and the file stays as it is."""
    folder = tmp_path / "S1"
    path = board(folder, *tasks)
    before = path.read_bytes()
    found = read_session(store, str(folder), "S1")
    assert (found["tasks"], found["left_out"]) == (0, 1)
    assert "state/tasks/tasks.json" in str(found["problems"])
    assert why in str(found["problems"]).replace('\\"', '"').replace("\\'", "'")
    assert Tasks(store, "lead").graph("S1") == []
    Tasks(store, "lead").add(NewTask("ours", "ours", "S1"))
    assert write_session(store, str(folder), "S1")["problems"]
    assert path.read_bytes() == before


def test_a_torn_plan_is_neither_empty_nor_written_over(store: CoordinationStore, tmp_path: Path) -> None:
    """Half a file is said to be no JSON, and an export leaves it."""
    folder = tmp_path / "S1"
    path = board(folder, planned("a"))
    path.write_bytes(path.read_bytes()[:40])
    assert "is not JSON" in str(read_session(store, str(folder), "S1")["problems"])
    Tasks(store, "lead").add(NewTask("ours", "ours", "S1"))
    assert "is not JSON" in str(write_session(store, str(folder), "S1")["problems"])
    assert path.stat().st_size == 40


def test_a_plan_is_written_with_the_fields_of_the_original(store: CoordinationStore, tmp_path: Path) -> None:
    """Version 1 with every field; the same again is no change, and elsewhere it gives the same plan."""
    folder = tmp_path / "S1"
    builder = Tasks(store, "builder", environ={})
    Tasks(store, "lead").add_all(
        [
            NewTask("do a", "a", "S1", owner="builder", risk="high", acceptance=("make test",), text="well"),
            NewTask("do b", "b", "S1", owner="tester", needs=("a",), review="required", priority="high"),
        ]
    )
    builder.claim("a", "S1")
    builder.complete("a", NewMessage("builder", kind="result", summary="done"), "S1")
    assert write_session(store, str(folder), "S1")["problems"] == []
    path = folder / "state" / "tasks" / "tasks.json"
    value = json.loads(path.read_text())
    first, second = value["tasks"]
    assert (value["version"], [one["id"] for one in value["tasks"]]) == (1, ["a", "b"])
    fields = (
        "id title owner acceptance depends_on status claimed_by claimed_at work_type risk intent "
        "source_message_id created_by created_at updated_at evidence receipt_file last_error last_error_by "
        "last_error_at completed_by completed_at dispatch history"
    )
    assert set(fields.split()) == set(first)
    assert (first["status"], first["completed_by"], first["acceptance"]) == (
        "completed",
        "builder",
        ["make test"],
    )
    assert [one["action"] for one in first["history"]] == ["add", "claim", "complete"]
    assert (folder / first["receipt_file"]).exists()
    assert (second["status"], second["depends_on"], second["dispatch"]["to"]) == ("pending", ["a"], "tester")
    inode = path.stat().st_ino
    write_session(store, str(folder), "S1")
    assert path.stat().st_ino == inode
    again = read_session(store, str(folder), "S1")
    assert (again["tasks"], again["problems"]) == (0, [])
    (tmp_path / "other").mkdir()
    other = CoordinationStore(str(tmp_path / "other"))
    read_session(other, str(folder), "S1")
    assert [(one.task.status, one.needs) for one in Tasks(other, "lead").graph("S1")] == [
        ("completed", ()),
        ("pending", ("a",)),
    ]
    other.close()
