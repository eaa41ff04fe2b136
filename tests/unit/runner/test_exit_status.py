"""How a command ended, in words, figures and numbers."""

import signal

import pytest

from jobwire.runner.exit_status import ExitStatus, signal_name


@pytest.mark.parametrize("status", [1, 2, 126, 127, 128, 129, 130, 137, 193, 200, 255])
def test_an_exit_status_is_no_signal(status: int) -> None:
    """Whatever a command exits with is told as its exit status, also where shells mean a signal by it."""
    ending = ExitStatus.of_returncode(status)
    assert ending.sentence == f"exit status {status}"
    assert ending.figures == {"exit_status": status}
    assert (ending.good, ending.shell_status) == (False, status)


@pytest.mark.parametrize(
    ("number", "name"),
    [(9, "SIGKILL"), (2, "SIGINT"), (34, "SIGRTMIN"), (36, "SIGRTMIN+2"), (64, "SIGRTMAX")],
)
def test_a_signal_is_no_exit_status(number: int, name: str) -> None:
    """A signal is told by its name, real-time signals too, and never as an exit status."""
    ending = ExitStatus.of_returncode(-number)
    assert ending.sentence == f"killed by {name}"
    assert ending.figures == {"signal": name}
    assert (ending.good, ending.shell_status) == (False, 128 + number)


def test_success() -> None:
    """Only exit status 0 is good."""
    assert ExitStatus.of_returncode(0) == ExitStatus(exit_status=0)
    assert ExitStatus(exit_status=0).good
    assert ExitStatus(exit_status=0).sentence == "finished"


def test_every_number_has_a_name() -> None:
    """No signal number breaks the words."""
    assert {signal_name(number) for number in range(1, int(signal.NSIG))}
