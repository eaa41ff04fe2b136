"""The inbox as other programs use it: one object on stdout on every path, its words and its exit codes."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobwire.coordination import cli
from jobwire.coordination.message import MAX_BULK

Inbox = Callable[..., dict[str, Any]]


@pytest.fixture
def inbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Inbox:
    """Give the command: words in, the object out; `code` is the exit code that is expected."""
    monkeypatch.chdir(tmp_path)
    for name in ("JOBWIRE_HOME", "JOBWIRE_DB", "JOBWIRE_AGENT", "JOBWIRE_LEASE", "JOBWIRE_JOB"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str, code: int = 0) -> dict[str, Any]:
        try:
            found = cli.main([*words, "--json"])
        except SystemExit as error:
            found = int(str(error.code))
        said = capfd.readouterr()
        lines = said.out.splitlines()
        assert (found, len(lines)) == (code, 1), said
        body: dict[str, Any] = json.loads(lines[0])
        assert body["ok"] is (code == 0)
        if code:
            assert body["error"]["exit_code"] == code
            assert body["error"]["message"]
        return body

    run("init")
    return run


@pytest.fixture
def thread(inbox: Inbox) -> str:
    """Give a thread for the builder."""
    sent = inbox("send", "--from", "lead", "--to", "builder", "--subject", "fix it", "--body", "now")
    return str(sent["thread_id"])


@pytest.mark.parametrize("words", [("reply", "--kind", "odd"), ("send", "--no-such"), ("claim", "--thread")])
def test_a_usage_error_is_json_wherever_json_stands(
    words: tuple[str, ...], inbox: Inbox, capfd: pytest.CaptureFixture[str]
) -> None:
    """`--json` before the verb is as good as after it, also where the verb's own options are wrong."""
    after = inbox(*words, code=30)
    with pytest.raises(SystemExit) as caught:
        cli.main(["--json", *words])
    assert caught.value.code == 30
    before = json.loads(capfd.readouterr().out)
    assert before["error"]["code"] == "invalid_input"
    assert (before["ok"], before["command"]) == (False, words[0])
    if words[-1] != "--thread":  # There the `--json` that follows is taken for its value by neither.
        assert before == after


def test_the_way_of_a_worker(inbox: Inbox, thread: str) -> None:
    """Fetch, claim, update, block, be answered, done: each says the thread, and an event_id that rises."""
    me = ("--agent", "builder", "--thread", thread)
    assert [one["thread_id"] for one in inbox("fetch", "--agent", "builder")["threads"]] == [thread]
    claimed = inbox("claim", *me, "--lease-seconds", "900")
    assert {"thread_id", "task_id", "status", "assigned_to"} <= claimed["thread"].keys()
    assert (claimed["command"], claimed["thread"]["status"]) == ("claim", "claimed")
    steps = [
        claimed,
        inbox("renew", *me),
        inbox("update", *me, "--summary", "half", "--status", "in_progress"),
        inbox("update", *me, "--summary", "which branch?", "--status", "blocked"),
        inbox("reply", "--agent", "lead", "--thread", thread, "--kind", "answer", "--summary", "main"),
        inbox("update", *me, "--summary", "on main"),
        inbox("done", *me, "--summary", "works", "--payload-json", '{"files": 3}'),
    ]
    numbers = [step["event_id"] for step in steps]
    assert numbers == sorted(numbers)
    statuses = [step["thread"]["status"] for step in steps]
    assert statuses == ["claimed", "claimed", "in_progress", "blocked", "in_progress", "in_progress", "done"]
    shown = inbox("show", "--thread", thread)
    assert [one["kind"] for one in shown["messages"]] == [
        "task",
        "progress",
        "question",
        "answer",
        "progress",
        "result",
    ]
    assert shown["messages"][-1]["payload"] == {"files": 3}


def test_unread_is_empty_after_reading(inbox: Inbox, thread: str) -> None:
    """--unread shows what was not shown to me yet; fetch itself changes nothing."""
    for _ in range(2):
        assert len(inbox("fetch", "--agent", "builder", "--unread")["threads"]) == 1
    inbox("show", "--agent", "builder", "--thread", thread)
    assert inbox("fetch", "--agent", "builder", "--unread", code=10)["error"]["code"] == "no_match"


def test_an_artifact_is_shown(inbox: Inbox, thread: str) -> None:
    """--artifact PATH[:KIND], repeated, comes back with its message."""
    files = ("--artifact", "out.txt:report", "--artifact", "/a:b/c")
    inbox("reply", "--agent", "builder", "--thread", thread, "--summary", "see", *files)
    found = inbox("show", "--thread", thread)["messages"][-1]["artifacts"]
    assert [(one["path"], one["kind"]) for one in found] == [("out.txt", "report"), ("/a:b/c", "file")]


@pytest.mark.parametrize(
    ("words", "code", "word"),
    [
        (("fetch", "--agent", "nobody"), 10, "no_match"),
        (("take", "--agent", "nobody"), 10, "no_match"),
        (("search", "nothing"), 10, "no_match"),
        (("claim", "--agent", "other", "--thread", "THREAD"), 20, "owner_mismatch"),
        (("done", "--agent", "builder", "--thread", "THREAD", "--summary", "x"), 20, "lease_lost"),
        (("fetch",), 30, "invalid_input"),
        (("fetch", "--agent", "0a1b2c3d"), 30, "invalid_input"),
        (("fetch", "--agent", "a", "--status", "none"), 30, "invalid_input"),
        (("none",), 30, "invalid_input"),
        (("fetch", "--none"), 30, "invalid_input"),
        (("send", "--agent", "a", "--payload-json", "{"), 30, "invalid_input"),
        (("send", "--agent", "a", "--body", "", "--body-file", "b"), 30, "invalid_input"),
        (("send", "--agent", "a", "--body-file", "none"), 30, "invalid_input"),
        (("send", "--agent", "a", "--summary", "s" * 1025), 30, "invalid_input"),
        (("update", "--agent", "a", "--thread", "THREAD", "--status", "no"), 30, "illegal_transition"),
        (("cancel", "--agent", "stranger", "--thread", "THREAD"), 30, "forbidden"),
        (("reply", "--agent", "stranger", "--thread", "THREAD", "--summary", "x"), 30, "forbidden"),
        (("show", "--thread", "none"), 40, "thread_not_found"),
        (("claim", "--agent", "a", "--thread", "none"), 40, "thread_not_found"),
        (("ack", "--agent", "a", "--message", "none"), 40, "message_not_found"),
        (("dead", "show", "none"), 40, "message_not_found"),
        (("dead", "show", "--task", "none"), 40, "task_not_found"),
    ],
)
def test_every_failure_has_its_code(
    inbox: Inbox, thread: str, words: tuple[str, ...], code: int, word: str
) -> None:
    """What fails is one object with its word and exit code, wherever it failed."""
    filled = [thread if one == "THREAD" else one for one in words]
    assert inbox(*filled, code=code)["error"]["code"] == word


def test_a_lease_fences_by_its_token(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another agent gets lease_conflict with holder; another token and another incarnation get lease_lost."""
    thread = inbox("send", "--agent", "lead", "--subject", "open")["thread_id"]
    mine = ("--agent", "builder", "--thread", thread)
    token = inbox("claim", *mine)["lease_token"]
    refused = inbox("claim", "--agent", "other", "--thread", thread, code=20)["error"]
    assert (refused["code"], refused["holder"]) == ("lease_conflict", "builder")
    words = ("--summary", "x")
    job_id = token.partition(".")[0]
    assert inbox("update", *mine, *words, "--token", f"{job_id}.2", code=20)["error"]["code"] == "lease_lost"
    monkeypatch.setenv("JOBWIRE_INCARNATION", "second life")
    assert inbox("update", *mine, *words, code=20)["error"]["code"] == "lease_lost"
    assert inbox("update", *mine, *words, "--token", token)["ok"]
    monkeypatch.setenv("JOBWIRE_LEASE", token)
    assert inbox("done", *mine, *words)["thread"]["status"] == "done"
    assert inbox("done", *mine, *words, code=20)["error"]["code"] == "already_terminal"


def test_the_same_id_again(inbox: Inbox) -> None:
    """--id sent again with the same content is a duplicate, with other content 20 duplicate_id."""
    words = ("send", "--agent", "lead", "--id", "m1", "--subject", "x")
    assert (inbox(*words)["duplicate"], inbox(*words)["duplicate"]) == (False, True)
    assert inbox(*words, "--body", "other", code=20)["error"]["code"] == "duplicate_id"


def test_messages_are_taken_and_given_back_until_they_are_dead(inbox: Inbox, thread: str) -> None:
    """take, nack, and the dead: listed with their reason, redriven, dropped; the sender is told."""
    taken = inbox("take", "--agent", "builder")
    held = ("--agent", "builder", "--message", taken["message"]["id"])
    assert inbox("ack", *held, "--token", "999", code=20)["error"]["code"] == "lease_lost"
    after = inbox("nack", *held, "--token", taken["lease_token"], "--reason", "no disk", "--permanent")
    assert after["delivery"]["state"] == "dead"
    listed = inbox("dead", "list")["dead"]
    assert [(one["agent_id"], one["last_error"]) for one in listed] == [("builder", "no disk")]
    told = inbox("take", "--agent", "lead")["message"]
    assert (told["type"], told["from_agent"]) == ("delivery_dead", "jobwire")
    for _ in range(3):
        assert inbox("dead", "redrive", held[3], "--agent", "lead")["delivery"]["state"] == "queued"
        inbox("take", "--agent", "builder")
        inbox("nack", *held, "--permanent")
    inbox("dead", "redrive", held[3], "--agent", "lead", code=20)
    inbox("dead", "redrive", held[3], "--agent", "lead", "--force")
    inbox("take", "--agent", "builder")
    assert inbox("ack", *held, "--summary", "done")["delivery"]["state"] == "done"


def test_a_body_comes_from_a_file(inbox: Inbox, tmp_path: Path) -> None:
    """--body-file takes 16 MiB of UTF-8, and refuses any more, and what is no UTF-8."""
    file = tmp_path / "body"
    for content, code, word in (
        (b"b" * MAX_BULK, 0, ""),
        (b"b" * (MAX_BULK + 1), 30, "too_large"),
        (b"b" * (MAX_BULK + 2), 30, "too_large"),
        (b"\xff", 30, "invalid_input"),
    ):
        file.write_bytes(content)
        body = inbox("send", "--agent", "a", "--to", "b", "--body-file", str(file), code=code)
        assert body.get("error", {}).get("code", "") == word


def test_escapes_are_shown_harmless(inbox: Inbox, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Control characters in a stranger's row reach no terminal."""
    with sqlite3.connect(tmp_path / ".hermes" / "coordination.db") as connection:
        connection.execute(
            "INSERT INTO messages (id, ts_ms, from_agent, to_agent, type, summary, body, payload, thread_id)"
            " VALUES (?, 1, 'x', 'b', ?, ?, ?, ?, ?)",
            (*["\x1b[2J\u202e"] * 5, "t\x1b"),
        )
    connection.close()
    for words in (
        ["list"],
        ["show", "--thread", "t\x1b"],
        ["fetch", "--agent", "b"],
        ["take", "--agent", "b"],
    ):
        assert cli.main(words) == 0
    said = capfd.readouterr().out
    assert "\x1b" not in said
    assert "\u202e" not in said


def test_a_store_that_is_none_is_50(inbox: Inbox, tmp_path: Path) -> None:
    """A file that is no database, a newer schema, by either sign: 50 with its word and a remedy."""
    path = tmp_path / ".hermes" / "coordination.db"
    for statement in (
        "UPDATE meta SET value = '99' WHERE key = 'schema_version'",
        "PRAGMA user_version = 99",
    ):
        with sqlite3.connect(path) as connection:
            connection.execute(statement)
        connection.close()
        error = inbox("fetch", "--agent", "a", code=50)["error"]
        assert (error["code"], bool(error["hint"])) == ("schema_version", True)
    path.write_bytes(b"no database at all" * 100)
    error = inbox("send", "--agent", "a", "--to", "b", code=50)["error"]
    assert (error["code"], bool(error["hint"])) == ("storage", True)


def test_a_store_that_is_named_has_its_home_beside_it(
    inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`inbox init --db PATH` makes file and home; from any directory, the same pair is used."""
    path = tmp_path / "agents" / "coord.db"
    path.parent.mkdir()
    made = inbox("init", "--db", str(path))
    assert (made["db"], made["home"]) == (str(path), str(path.parent / ".hermes"))
    monkeypatch.chdir("/")
    sent = inbox("--db", str(path), "send", "--agent", "lead", "--to", "b", "--subject", "x")
    monkeypatch.setenv("JOBWIRE_DB", str(path))
    assert inbox("claim", "--agent", "b", "--thread", sent["thread_id"])["thread"]["status"] == "claimed"
    assert len(list((path.parent / ".hermes" / "jobs").glob("*.json"))) == 1


def test_lists_take_commas_and_bars(inbox: Inbox, thread: str) -> None:
    """A list of statuses is parted by either."""
    for words in ("pending,blocked", "pending|blocked"):
        assert len(inbox("list", "--status", words, "--created-by", "lead")["threads"]) == 1
    assert inbox("list", "--status", "done|failed")["threads"] == []


@pytest.mark.parametrize("verb", ["list", "fetch", "search"])
def test_a_list_that_is_cut_says_so(inbox: Inbox, capfd: pytest.CaptureFixture[str], verb: str) -> None:
    """Where --limit leaves something out, one line says so; where it does not, none."""
    for number in range(2):
        inbox("send", "--from", "lead", "--to", "builder", "--summary", f"word {number}")
    words = {"list": [], "fetch": ["--agent", "builder"], "search": ["word"]}[verb]
    assert cli.main([verb, *words, "--limit", "2"]) == 0
    assert capfd.readouterr().err == ""
    assert cli.main([verb, *words, "--limit", "1"]) == 0
    assert "--limit" in capfd.readouterr().err
