"""What agents were promised, row by row, and the tests that hold it.

Each test here is named after a row and names the tests of its behaviour, which must be there; what only whole
commands can show stands here itself.
"""

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[2]
INBOX = str(Path(sys.executable).parent / "inbox")


@cache
def _tests_in(path: str) -> frozenset[str]:
    tree = ast.parse((TESTS / path).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


# Row, what must hold, and where it is shown.
ROWS: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
    "23": (
        "every type of the file bus is sent and read back unchanged; its own reader reads what is exported",
        {"integration/coordination/test_message_bus.py": ("test_every_type_is_sent_and_read_back",)},
    ),
    "25": (
        "a silent agent is WARN, STALE, DEAD at 3, 10, 30 intervals; its deliveries come back, nobody else's",
        {
            "unit/coordination/test_liveness.py": (
                "test_ages_of_the_usual_interval",
                "test_age_is_counted_in_the_agents_own_intervals",
            ),
            "integration/coordination/test_agents.py": (
                "test_a_death_gives_back_what_the_agent_held_and_nobody_elses",
            ),
            "integration/coordination/test_death_watch.py": ("test_thirty_intervals_of_silence_are_a_death",),
        },
    ),
    "28": (
        "a wait for TASK_COMPLETE_* is woken by an end after its start, and TASK_FAILED wakes too",
        {
            "acceptance/coordination/test_agent_commands.py": ("test_watching_and_waiting_by_name",),
            "integration/coordination/test_waiting.py": (
                "test_a_named_event_counts_after_the_start_of_the_wait",
            ),
            "unit/coordination/test_event_names.py": ("test_an_event_is_named_by_its_type_and_task",),
        },
    ),
    "29": (
        "a processor that is killed anywhere: the message runs at least once, its receipt is there once",
        {
            "faults/test_autopilot_killed.py": ("test_nothing_is_lost_and_nothing_twice",),
            "integration/runner/test_autopilot.py": (
                "test_a_worker_that_is_killed_is_tried_again",
                "test_a_task_is_a_job_and_its_output_the_receipt",
            ),
        },
    ),
    "31": (
        "injections and fences dispatch nothing, each directive once, implement by leads, their answers sent",
        {
            "unit/coordination/test_directives.py": (
                "test_a_line_break_in_a_value_injects_nothing",
                "test_every_key_is_read",
                "test_quotes_and_code_ask_for_nothing",
            ),
            "unit/coordination/test_session_folder.py": ("test_what_is_not_a_message_stays_and_is_told",),
            "unit/coordination/test_routing.py": (
                "test_only_a_lead_asks_for_implementation",
                "test_a_lead_answers_a_receipt_with_directives",
                "test_a_crash_before_the_receipt_is_out_sends_each_directive_once",
            ),
            "integration/runner/test_autopilot.py": ("test_a_lead_answers_a_receipt_with_directives",),
        },
    ),
    "32": (
        "a failing command runs three times with growing delays, then it is dead; redrive; serial is serial",
        {
            "integration/runner/test_autopilot.py": (
                "test_a_failure_is_tried_again_and_then_dead",
                "test_the_delays_grow",
                "test_serial_never_overlaps",
            ),
            "unit/coordination/test_tries.py": ("test_a_failure_is_tried_again_later_or_dead",),
        },
    ),
    "33": (
        "the same id twice is one message, with other words 20; {} survives; threads do not wait for others",
        {
            "unit/coordination/test_sending.py": (
                "test_the_same_message_again_is_there_once",
                "test_empty_payloads_survive",
                "test_what_no_reader_takes_is_refused_and_nothing_is_stored",
                "test_order_within_a_thread_is_kept",
            ),
            "unit/coordination/test_inbox_commands.py": ("test_the_same_id_again",),
            "unit/coordination/test_deliveries_model.py": ("test_deliveries_are_as_their_model",),
        },
    ),
    "34": (
        "other programs' own SQL claims, renews and releases free names; what is finished is not claimed",
        {
            "unit/coordination/test_other_programs.py": (
                "test_claim_renew_and_release_of_a_free_name",
                "test_a_finished_task_cannot_be_claimed",
                "test_poll_and_ack_see_our_messages",
            )
        },
    ),
    "35": (
        "beats go on while the work blocks, and the latest status is shown",
        {
            "integration/coordination/test_heartbeat.py": (
                "test_beats_go_on_while_the_work_blocks",
                "test_the_latest_status_wins_and_is_told_at_once",
            ),
            "acceptance/runner/test_agent_beats.py": ("test_a_command_beats_for_its_agent",),
        },
    ),
    "36": (
        "an export that is killed at any write loses no line and doubles none",
        {
            "integration/coordination/test_export.py": (
                "test_an_export_that_was_killed_goes_on_where_it_was",
                "test_one_exports_at_a_time",
            )
        },
    ),
    "37": (
        "4,096 bytes stand in the row, 4,097 in a blob; one that was changed is an error",
        {
            "unit/coordination/test_sending.py": (
                "test_bodies_beyond_4096_bytes_are_blobs",
                "test_a_blob_that_was_changed_or_removed_is_an_error",
            )
        },
    ),
    "38": (
        "search finds words of a body; a newer schema is refused with 50 and its remedy",
        {
            "unit/coordination/test_sending.py": ("test_words_of_body_and_payload_are_found",),
            "unit/coordination/test_inbox_commands.py": ("test_a_store_that_is_none_is_50",),
            "unit/storage/test_sqlite_file.py": ("test_a_newer_database_is_left_as_it_is",),
        },
    ),
    "39": (
        "a waiter is woken by a commit, elsewhere by a doorbell; without file events within two seconds",
        {
            "integration/coordination/test_waiting.py": (
                "test_a_wait_is_woken_by_the_answer",
                "test_another_programs_row_is_found_within_two_seconds",
            ),
            "integration/coordination/test_agent_port.py": (
                "test_a_wait_is_woken_by_the_answer_of_the_other",
            ),
            "integration/storage/test_wake.py": (),
        },
    ),
    "41": (
        "every verb of the inbox does its part of a worker's way",
        {
            "unit/coordination/test_inbox_commands.py": ("test_the_way_of_a_worker",),
            "integration/coordination/test_ticket_commands.py": ("test_work_is_done_by_a_ticket",),
        },
    ),
    "42": (
        "one JSON object on every path, with the codes of the table",
        {
            "unit/coordination/test_inbox_commands.py": ("test_every_failure_has_its_code",),
            "unit/cli/test_told.py": ("test_every_refusal_is_one_object_with_code_and_hint",),
        },
    ),
    "43": (
        "--unread is empty after reading; an artifact is shown; the event of an update is a cursor",
        {
            "unit/coordination/test_inbox_commands.py": (
                "test_unread_is_empty_after_reading",
                "test_an_artifact_is_shown",
            )
        },
    ),
    "44": (
        "each command of the texts that agents are given is run",
        {
            "integration/cli/test_skill_texts.py": (
                "test_a_worker_does_what_its_text_says",
                "test_a_lead_does_what_its_text_says",
                "test_a_director_does_what_its_text_says",
            )
        },
    ),
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"row_{row}")
def test_a_row_is_held_by_tests_that_are_there(row: str) -> None:
    """Each behaviour of the row is shown by the tests that are named for it."""
    for path, names in ROWS[row][1].items():
        assert set(names) <= _tests_in(path), path


class Commands:
    """Runs `inbox` in a fresh home."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self("init")

    def __call__(self, *words: str, code: int = 0) -> dict[str, Any]:
        """Return what it prints."""
        done = subprocess.run(
            [sys.executable, INBOX, *words, "--json", "--db", str(self._folder / "coord.db")],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self._folder)},
        )
        assert done.returncode == code, done
        said: dict[str, Any] = json.loads(done.stdout)
        return said


def test_row_42_every_exit_code_is_reached_and_every_answer_has_its_form(tmp_path: Path) -> None:
    """0, 10, 20, 30, 40 and 50 in one walk; each object says ok, each failure its code and hint."""
    inbox = Commands(tmp_path)
    thread = inbox("send", "--from", "lead", "--to", "a", "--subject", "fix it")["thread_id"]
    on = ("--thread", thread)
    claimed = inbox("claim", "--agent", "a", *on, "--lease-seconds", "900")
    assert (claimed["ok"], claimed["command"]) == (True, "claim")
    assert {"thread_id", "task_id", "status", "assigned_to"} <= claimed["thread"].keys()
    nothing = inbox("wait-reply", "--agent", "a", *on, "--timeout-seconds", "0", code=10)
    assert (nothing["ok"], nothing["woke"], nothing["error"]["code"]) == (False, False, "timeout")
    failures = [
        (10, "no_match", ("fetch", "--agent", "nobody")),
        (20, "lease_conflict", ("claim", "--agent", "b", *on)),
        (30, "invalid_input", ("fetch", "--agent", "a", "--status", "asleep")),
        (40, "thread_not_found", ("show", "--thread", "t-none")),
    ]
    for code, word, words in failures:
        error = inbox(*words, code=code)["error"]
        assert (error["code"], error["exit_code"]) == (word, code)
        assert error["message"]
        assert error["hint"]
    (tmp_path / "coord.db").write_bytes(b"no database at all, but long enough to look like one")
    assert inbox("list", code=50)["error"]["code"] == "storage"


def test_row_43_the_event_of_an_update_is_the_cursor_of_the_wait(tmp_path: Path) -> None:
    """What is answered after the update is found behind its event, however late the wait begins."""
    inbox = Commands(tmp_path)
    thread = inbox("send", "--from", "lead", "--to", "a", "--subject", "fix it")["thread_id"]
    on = ("--thread", thread)
    inbox("claim", "--agent", "a", *on)
    update = inbox("update", "--agent", "a", *on, "--status", "blocked", "--summary", "which port?")
    inbox("reply", "--from", "lead", "--to", "a", *on, "--kind", "answer", "--summary", "8883")
    words = ("--after-event", str(update["event_id"]), "--kinds", "answer,control|result")
    woken = inbox("wait-reply", "--agent", "a", *on, *words, "--timeout-seconds", "60")
    assert (woken["ok"], woken["command"], woken["woke"]) == (True, "wait-reply", True)
    assert woken["next_event_id"] > update["event_id"]
    assert {"message_id", "thread_id", "kind", "summary", "body"} <= woken["message"].keys()
    assert (woken["message"]["kind"], woken["message"]["summary"]) == ("answer", "8883")
