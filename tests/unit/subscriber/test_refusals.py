"""Refused messages on stderr: named, summed up in a flood, counted."""

from jobwire.jobs.admission import Reason
from jobwire.subscriber.outcome import Refusal
from jobwire.subscriber.printer import BURST, WINDOW_SECONDS, RefusalLog
from jobwire.testing import ManualClock


def test_each_refusal_is_named_with_its_reason() -> None:
    """Where there is no flood, every refused message has its own line."""
    written: list[str] = []
    log = RefusalLog(write=written.append, clock=ManualClock())
    log.add(Refusal("0000abcd", Reason.BAD_SIGNATURE, "not signed with the key of attempt 1"))
    log.add(Refusal("", Reason.MALFORMED, "not JSON"))
    assert written == [
        "job 0000abcd: message refused: bad_signature: not signed with the key of attempt 1",
        "job ?: message refused: malformed: not JSON",
    ]


def test_a_flood_is_summed_up_and_counted() -> None:
    """Five thousand forged messages make a handful of lines, and none of them is forgotten."""
    written: list[str] = []
    clock = ManualClock()
    log = RefusalLog(write=written.append, clock=clock)
    for number in range(5_000):
        log.add(Refusal("0000abcd", Reason.BAD_SIGNATURE if number % 5 else Reason.MALFORMED, "x"))
    assert len(written) == BURST
    clock.advance(WINDOW_SECONDS)
    log.add(Refusal("0000abcd", Reason.LATE, "y"))
    log.flush()
    assert written[BURST] == "4990 more messages refused: 3992 bad_signature, 998 malformed"
    assert len(written) == BURST + 2
    assert log.counts == {"bad_signature": 4_000, "malformed": 1_000, "late": 1}
