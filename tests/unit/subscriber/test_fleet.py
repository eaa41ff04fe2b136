"""Several jobs: when the whole is over, and with which code."""

import pytest

from jobwire.jobs.admission import JobView
from jobwire.jobs.record import Timeouts
from jobwire.subscriber.fleet import Fleet, Mode, exit_code
from jobwire.subscriber.outcome import Outcome, Verdict
from jobwire.subscriber.watch import JobWatch

ONE, TWO = "00000001", "00000002"


def fleet(mode: Mode) -> Fleet:
    """Return a fleet of two jobs."""
    both = Fleet(mode)
    for job_id in (ONE, TWO):
        both.add(JobWatch(job_id, view=JobView(token="t" * 32), limits=Timeouts(idle_seconds=5), now=0.0))
    return both


def verdict(job_id: str, outcome: Outcome) -> Verdict:
    """Return a verdict."""
    return Verdict(job_id, outcome, "", 1.0)


def test_all() -> None:
    """By default the watch waits for every job."""
    both = fleet(Mode())
    both.settle(verdict(ONE, Outcome.ERROR))
    assert not both.done()
    both.settle(verdict(TWO, Outcome.COMPLETED))
    assert both.done()
    assert both.verdicts().exit_code == 1
    assert both.verdicts().undecided == ()


def test_any() -> None:
    """With any, the first verdict ends it and its code counts."""
    both = fleet(Mode(any_one=True))
    assert both.deadline == 5.0
    both.settle(verdict(TWO, Outcome.COMPLETED))
    assert both.done()
    assert both.verdicts() == ({TWO: verdict(TWO, Outcome.COMPLETED)}, (ONE,), 0, False)


def test_fail_fast() -> None:
    """Fail-fast ends at the first that is not success, not before."""
    both = fleet(Mode(fail_fast=True))
    both.settle(verdict(ONE, Outcome.COMPLETED))
    assert not both.done()
    both.settle(verdict(TWO, Outcome.CANCELLED))
    assert both.done()
    assert both.verdicts().exit_code == 3


def test_follow_never_ends() -> None:
    """A following watch stays for jobs to come; interrupted it says so."""
    both = fleet(Mode(follow=True))
    both.settle(verdict(ONE, Outcome.COMPLETED))
    both.settle(verdict(TWO, Outcome.COMPLETED))
    assert not both.done()
    assert both.verdicts(interrupted=True).exit_code == 130


@pytest.mark.parametrize(
    ("codes", "expected"), [([], 0), ([0, 0], 0), ([0, 3, 2], 2), ([3, 1, 2], 1), ([0, 3], 3)]
)
def test_one_code_for_many(codes: list[int], expected: int) -> None:
    """An error outweighs a timeout, which outweighs a cancellation, which outweighs success."""
    assert exit_code(codes) == expected
