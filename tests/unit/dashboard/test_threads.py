"""Conversations as rows."""

from jobwire.coordination.thread import InboxThread, ThreadStatus
from jobwire.dashboard.coordination.threads import CHOICES, LastWord, count_choices, thread_row
from jobwire.dashboard.foreign import MOST_SHOWN

STAMP = "2026-01-01T00:00:00.000000Z"
THREAD = InboxThread(
    "t-1", "default", "", "subject", "lead", "builder", "builder", "blocked", "high", "m-1", STAMP, STAMP,
    None, 0, 0, 3, 9,
)  # fmt: skip


def test_every_status_can_be_chosen_once() -> None:
    """The choices of the page take in each status exactly once."""
    found = [status for choice in CHOICES.values() for status in choice]
    assert sorted(found) == sorted(ThreadStatus)
    assert count_choices({"pending": 2, "claimed": 1, "blocked": 4, "cancelled": 1}) == {
        "blocked": 4,
        "open": 3,
        "failed": 0,
        "ended": 1,
    }


def test_a_row_names_who_has_not_read() -> None:
    """Those who have read all are not named; the last word is the newest message's."""
    row = thread_row(THREAD, LastWord(5, 2000, "builder", "question", "", "why?"), {"lead": 2, "builder": 0})
    assert row["unread"] == {"lead": 2}
    assert row["last"] == {"from": "builder", "at": 2.0, "kind": "question", "type": "", "text": "why?"}
    assert thread_row(THREAD, None, {})["last"] is None


def test_texts_of_other_programs_are_cut_and_their_times_may_be_none() -> None:
    """A table takes any text; a row of it stays small, and is shown whatever stands for its time."""
    row = thread_row(THREAD._replace(subject="x" * 10**6, updated_at="yesterday"), None, {})
    assert len(str(row["subject"])) <= MOST_SHOWN + 2
    assert row["updated"] == 0.0
    assert row["created"] == 1_767_225_600.0
