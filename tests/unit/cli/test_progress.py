"""Reading progress from a command's output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.cli.progress import LineSplitter, Report, Throttle, read_line


@pytest.mark.parametrize(
    ("line", "report"),
    [
        ("::progress compiling 3 of 9", Report("progress", "compiling 3 of 9")),
        ("  ::progress half 50%  ", Report("progress", "half 50%", 50.0)),
        ("::permission may I push?", Report("permission_required", "may I push?")),
        ("[ 12%] Building C object", Report("progress", "[ 12%] Building C object", 12.0)),
        ("\x1b[32m99.5 %\x1b[0m done", Report("progress", "99.5 % done", 99.5)),
        ("100%|####| 3/3", Report("progress", "100%|####| 3/3", 100.0)),
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


@given(st.lists(st.binary(max_size=12), max_size=12))
def test_chunks_do_not_matter(chunks: list[bytes]) -> None:
    """However the stream is cut into chunks, the completed lines are the same."""
    one, many = LineSplitter(), LineSplitter()
    whole = one.feed(b"".join(chunks) + b"\n")
    assert [line for chunk in [*chunks, b"\n"] for line in many.feed(chunk)] == whole


def test_an_endless_line_is_bounded() -> None:
    """A program that never ends its line does not fill the memory."""
    splitter = LineSplitter()
    for _ in range(100):
        splitter.feed(b"x" * 4096)
    assert len(splitter._rest) <= 16 * 1024


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
    assert throttle.take(11.1) == Report("permission_required", "?")
