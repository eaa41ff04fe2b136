"""What is said about a command: kept first, sent beside it, and never without a last word."""

import threading
from collections.abc import Callable, Mapping

import pytest

from jobwire.core.clock import SystemClock
from jobwire.core.errors import ConfigError, ConflictError, RefusedError, StorageError, UnreachableError
from jobwire.core.override import override
from jobwire.runner.progress import Report
from jobwire.runner.reporter import Reporter
from jobwire.testing import wait_for

FIGURES = {"exit_status": 0}


class FakePublisher:
    """Keeps in a list; `sending` is called for each send, `keeping` before each event is kept."""

    def __init__(
        self,
        sending: Callable[[], None] = lambda: None,
        keeping: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.kept: list[tuple[str, str, Mapping[str, object]]] = []
        self.sent = 0
        self.closed = False
        self._sending = sending
        self._keeping = keeping

    def keep(self, event: str, detail: str = "", data: Mapping[str, object] | None = None) -> object:
        """See `EventPublisher`."""
        self._keeping(event)
        self.kept.append((event, detail, data or {}))
        return None

    def send(self) -> None:
        """See `EventPublisher`."""
        self._sending()
        self.sent = len(self.kept)

    def close(self) -> None:
        """See `EventPublisher`."""
        self.closed = True

    @property
    def events(self) -> list[str]:
        """Return the names of what was kept."""
        return [event for event, _, _ in self.kept]


class FastClock(SystemClock):
    """The system's clock, but nobody sleeps."""

    @override
    def sleep(self, seconds: float) -> None:
        """Go on at once."""


def reporter_of(
    publisher: FakePublisher, *, waiting: bool = False, idle_seconds: float | None = None
) -> Reporter:
    """Return a reporter that speaks through `publisher`."""
    return Reporter(
        publisher, clock=FastClock(), environ={}, waiting=lambda: waiting, idle_seconds=idle_seconds
    )


def fails_with(error: Exception, times: int = 1_000_000) -> Callable[..., None]:
    """Return what raises `error` the first `times` times."""
    left = [times]

    def fail(*_: object) -> None:
        if left[0] > 0:
            left[0] -= 1
            raise error

    return fail


def test_everything_is_said_in_order_and_sent() -> None:
    """Started, progress and the last word are kept in this order and sent; the last one bears the figures."""
    publisher = FakePublisher()
    reporter = reporter_of(publisher)
    reporter.start("title")
    reporter.offer(Report("progress", "half", 50.0))
    wait_for(lambda: len(publisher.kept) == 2, what="the progress")
    reporter.finish("completed", "finished", FIGURES)
    assert publisher.kept == [
        ("started", "title", {}),
        ("progress", "half", {"percent": 50.0}),
        ("completed", "finished", FIGURES),
    ]
    assert (publisher.sent, publisher.closed) == (3, True)


def test_a_broker_that_hangs_delays_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While a send hangs, events are kept; at the end nobody waits for it longer than said."""
    monkeypatch.setattr("jobwire.runner.reporter.LAST_SECONDS", 0.05)
    answered = threading.Event()
    publisher = FakePublisher(sending=lambda: (answered.wait(60), None)[1])
    reporter = reporter_of(publisher)
    reporter.start("title")
    reporter.finish("completed", "finished", FIGURES)
    assert publisher.events == ["started", "completed"]
    assert capsys.readouterr().err.count("has not answered") == 1
    answered.set()


@pytest.mark.parametrize(
    "error", [UnreachableError("away"), RefusedError("no"), ConfigError("bad"), StorageError("disk")]
)
def test_no_failure_to_send_costs_the_last_word(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever sending ends with: one warning, and the last word is kept."""
    publisher = FakePublisher(sending=fails_with(error))
    reporter = reporter_of(publisher)
    reporter.start("title")
    reporter.finish("error", "exit status 3", {"exit_status": 3})
    assert publisher.events == ["started", "error"]
    assert capsys.readouterr().err.count("jobwire:") == 1


@pytest.mark.parametrize("word", ["started", "completed"])
def test_a_disk_that_recovers_gets_the_first_and_the_last_word(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Either is tried again where the disk or a lock failed twice, and that is said."""
    failing = fails_with(StorageError("disk"), times=2)
    publisher = FakePublisher(keeping=lambda event: failing() if event == word else None)
    reporter = reporter_of(publisher)
    reporter.start("title")
    reporter.finish("completed", "finished", FIGURES)
    assert publisher.events == ["started", "completed"]
    assert capsys.readouterr().err.count(f"{word} is not kept yet: disk; trying again") == 2


def test_nothing_begins_that_cannot_be_kept() -> None:
    """Where `started` cannot be kept the command must not begin."""
    with pytest.raises(StorageError):
        reporter_of(FakePublisher(keeping=fails_with(StorageError("disk")))).start("title")


def test_a_job_that_has_ended_is_left_alone() -> None:
    """After the job's own last word nothing more is said."""

    def keeping(event: str) -> None:
        if event != "started":
            raise ConflictError("already completed")

    publisher = FakePublisher(keeping=keeping)
    reporter = reporter_of(publisher)
    reporter.start("title")
    reporter.finish("error", "exit status 3", {"exit_status": 3})
    assert publisher.events == ["started"]


@pytest.mark.parametrize(("waiting", "events"), [(False, 2), (True, 1)])
def test_output_is_told_now_and_then(waiting: bool, events: int) -> None:
    """Output becomes a sign of life before the idle limit; not while the job waits for a permission."""
    asked = threading.Event()
    publisher = FakePublisher()

    def is_waiting() -> bool:
        asked.set()
        return waiting

    reporter = Reporter(publisher, clock=SystemClock(), environ={}, waiting=is_waiting, idle_seconds=0.3)
    reporter.start("title")
    reporter.printed(100)
    assert asked.wait(60)
    reporter.finish("completed", "finished", FIGURES)
    assert publisher.events.count("progress") == events - 1
