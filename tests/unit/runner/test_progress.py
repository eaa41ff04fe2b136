"""Reading progress from a command's output."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.runner.progress import Report, ReportReader, SignsOfLife, Throttle, life_interval, read_line


@pytest.mark.parametrize(
    ("line", "report"),
    [
        ("::progress compiling 3 of 9", Report("progress", "compiling 3 of 9")),
        ("  ::progress half 50%  ", Report("progress", "half 50%", 50.0)),
        ("::permission may I push?", Report("permission_required", "may I push?")),
        ("::question which name?", Report("permission_required", "which name?", question=True)),
        ("[ 12%] Building C object", Report("progress", "[ 12%] Building C object", 12.0)),
        ("\x1b[32m99.5 %\x1b[0m done", Report("progress", "99.5 % done", 99.5)),
        ("100%|####| 3/3", Report("progress", "100%|####| 3/3", 100.0)),
        ("[12/60] Building C object", Report("progress", "[12/60] Building C object", 20.0)),
        ("[ 3/ 60] x", Report("progress", "[ 3/ 60] x", 5.0)),
        ("test 12/60: ok", Report("progress", "test 12/60: ok", 20.0)),
        ("epoch 1/3, loss 0.5", Report("progress", "epoch 1/3, loss 0.5", 33.3)),
        ("0/7", Report("progress", "0/7", 0.0)),
        ("7/7.", Report("progress", "7/7.", 100.0)),
        ("1/2 of it is 80%", Report("progress", "1/2 of it is 80%", 80.0)),
        ("on 12/06/2026", None),
        ("on 06/12", None),
        ("a/1/2/3 and 1/2/3", None),
        ("60/12", None),
        ("[60/12]", None),
        ("[0/0]", None),
        ("10.0.0.0/24", None),
        ("at 12:30/45", None),
        ("a 3/4-inch pipe", None),
        ("text/1.2", None),
        ("v1/2", None),
        ("120% more", None),
        ("v1.50% x", None),
        ("nothing to see", None),
        ("::progress", None),
        ("", None),
    ],
)
def test_what_a_line_reports(line: str, report: Report | None) -> None:
    """Spoken lines and percentages report, ordinary lines do not, colours are dropped."""
    assert read_line(line) == report


@given(st.text(max_size=300))
def test_no_line_breaks_the_reader(line: str) -> None:
    """Any output gives a report that fits into an event, or none."""
    report = read_line(line)
    assert report is None or (len(report.detail) <= 1024 and "\x1b" not in report.detail)


_PIECES = st.sampled_from(
    [
        b"50%",
        b"1/2",
        b"[ 3 / 4 ]",
        b"::progress x",
        b"::permission y",
        b"\n",
        b"\r",
        b" ",
        b"word",
        b"\x1b[32m",
    ]
)


@given(st.lists(_PIECES, max_size=30).map(b"".join), st.integers(1, 7))
def test_chunks_do_not_matter(text: bytes, size: int) -> None:
    """However the stream is cut into chunks, each whole line reports as it does by itself."""
    lines = re.split(rb"[\r\n]", text + b"\n")
    alone = [report for line in lines if (report := read_line(line.decode())) is not None]
    reader = ReportReader()
    chunks = [(text + b"\n")[start : start + size] for start in range(0, len(text) + 1, size)]
    assert [report for chunk in chunks for report in reader.feed(chunk)] == alone


def test_an_endless_line_is_bounded() -> None:
    """A program that never ends its line does not fill the memory."""
    reader = ReportReader()
    for _ in range(100):
        reader.feed(b"x" * 4096)
    assert len(reader._rest) <= 16 * 1024


def test_at_most_one_a_second_and_the_latest_wins() -> None:
    """Progress is thinned to one a second without losing its latest word; permission goes at once."""
    throttle = Throttle()
    throttle.offer(Report("progress", "1"))
    assert throttle.take(10.0) == Report("progress", "1")
    throttle.offer(Report("progress", "2"))
    throttle.offer(Report("progress", "3"))
    assert throttle.take(10.5) is None
    assert throttle.take(11.0) == Report("progress", "3")
    throttle.offer(Report("permission_required", "?"))
    throttle.offer(Report("progress", "4"))
    throttle.offer(Report("permission_required", "and?"))
    assert throttle.take(11.1) == Report("permission_required", "?")
    assert throttle.take(11.1) == Report("permission_required", "and?")
    assert throttle.take(11.1) is None


def test_output_is_a_sign_of_life() -> None:
    """A command that prints without reporting is told of once an interval, and a silent one is not."""
    life = SignsOfLife(10.0, 0.0)
    assert life.due(50.0) is None
    life.printed(1500)
    assert life.due(9.0) is None
    first = life.due(10.0)
    assert first == Report("progress", "printed 1.5 kB")
    life.said(first, 10.0)
    assert life.due(100.0) is None
    life.printed(1)
    assert life.due(19.0) is None
    assert life.due(20.0) is not None


def test_a_sign_of_life_takes_nothing_back() -> None:
    """What was reported last stays the job's word, with its figure."""
    life = SignsOfLife(10.0, 0.0)
    life.said(Report("progress", "half", 50.0), 1.0)
    life.printed(1)
    assert life.due(11.0) == Report("progress", "half", 50.0)


@pytest.mark.parametrize(("idle", "interval"), [(None, 30.0), (3.0, 1.0), (600.0, 30.0)])
def test_signs_of_life_come_in_time(idle: float | None, interval: float) -> None:
    """Who prints is never called idle: two signs are missed before the limit is reached."""
    assert life_interval(idle) == interval
