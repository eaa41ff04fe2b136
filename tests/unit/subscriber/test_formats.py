"""What lines look like: for programs, for people, and for nobody's terminal to be harmed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.terminal_text import safe, width
from jobwire.jobs.event import Event
from jobwire.subscriber.formats import LineFormat, Style, duration, json_line, percent_of, summary
from jobwire.subscriber.outcome import EventLine, Outcome, Verdict, Verdicts

JOB = "0000abcd"
STAMP = "2026-01-02T03:04:05.678Z"


def line(detail: str = "", kind: str = "progress", **data: object) -> EventLine:
    """Return an event as a line."""
    return EventLine(Event(7, JOB, kind, STAMP, detail, data))


def readable(value: EventLine | Verdict, style: Style) -> str:
    """Return the readable line at a fixed time."""
    return LineFormat(style=lambda: style, clock_text=lambda: "12:00:00")(value)


def test_json_of_an_event() -> None:
    """A program finds the event's own fields, and marks only where they hold."""
    body = json.loads(json_line(line("ünï\n", percent=5)))
    assert body == {
        "job_id": JOB,
        "seq": 7,
        "event": "progress",
        "timestamp": STAMP,
        "detail": "ünï\n",
        "data": {"percent": 5},
    }
    assert json.loads(json_line(line()._replace(late=True)))["late"] is True
    assert json.loads(json_line(line()._replace(recovered=True)))["recovered"] is True


def test_json_of_a_verdict() -> None:
    """A program finds outcome, exit code and reason."""
    verdict = Verdict(JOB, Outcome.IDLE, "idle timeout: no event for 5 s", 5.00049, 2)
    assert json.loads(json_line(verdict)) == {
        "job_id": JOB,
        "verdict": "idle_timeout",
        "exit_code": 2,
        "reason": "idle timeout: no event for 5 s",
        "seconds": 5.0,
        "events": 2,
    }


@given(st.text(max_size=200))
def test_json_is_one_ascii_line(detail: str) -> None:
    """Whatever a worker says, one event is one line of printable ASCII."""
    text = json_line(line(detail))
    assert text.isascii()
    assert text.isprintable()


@pytest.mark.parametrize("columns", [80, 120])
@given(st.text(max_size=200), st.sampled_from(["started", "progress", "permission_required", "error"]))
def test_readable_lines_fit_the_terminal(columns: int, detail: str, kind: str) -> None:
    """No line is wider than the terminal, and none holds anything that acts on it."""
    text = readable(line(detail, kind, percent=42.0), Style(columns=columns))
    assert width(text) <= columns
    assert safe(text) == text


def test_readable_lines() -> None:
    """A person reads time, job, event, progress and detail."""
    assert readable(line("half", percent=50), Style()) == "12:00:00 0000abcd progress   █████░░░░░  50% half"
    plain = readable(line("half", percent=50), Style(unicode=False))
    assert plain == "12:00:00 0000abcd progress   #####.....  50% half"
    assert readable(line("may I?", "permission_required"), Style()) == ("12:00:00 0000abcd permission may I?")
    late = readable(line("x" * 200)._replace(late=True), Style(columns=60))
    assert late.endswith("… (late)")
    assert len(late) == 60


def test_a_verdict_for_people() -> None:
    """The last line says how it ended, after how long, and why, without saying the timer twice."""
    verdict = Verdict(JOB, Outcome.IDLE, "idle timeout: no event for 5 s", 65.0)
    assert readable(verdict, Style()) == (
        "12:00:00 0000abcd => idle timeout after 1 min 05 s: no event for 5 s"
    )


def test_colours_only_where_wanted() -> None:
    """Escape sequences appear with colour and never without."""
    assert "\x1b[32m" in readable(line("", "completed"), Style(colour=True))
    assert "\x1b" not in readable(line("", "completed"), Style())


@pytest.mark.parametrize(
    ("value", "expected"),
    [(50, 50.0), (0, 0.0), (100, 100.0), (12.5, 12.5), (101, None), (-1, None), ("50", None), (True, None)],
)
def test_percent(value: object, expected: float | None) -> None:
    """Only a number from 0 to 100 makes a bar."""
    assert percent_of(line(percent=value).event) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.04, "0.0 s"), (12.34, "12.3 s"), (245, "4 min 05 s"), (7620, "2 h 07 min")]
)
def test_duration(seconds: float, expected: str) -> None:
    """Spans are written the way people say them."""
    assert duration(seconds) == expected


def test_summary() -> None:
    """The table at the end has a row for every job, decided or not, and fits the terminal."""
    verdicts = Verdicts(
        {JOB: Verdict(JOB, Outcome.ERROR, "no \x1b[1mdisk " + "x" * 200, 3.0, 4)}, ("0000ffff",), 1
    )
    rows = summary(verdicts, {JOB: "日本 build", "0000ffff": ""}, Style(columns=80))
    assert [row.split()[0] for row in rows] == ["job", JOB, "0000ffff"]
    assert "still open" in rows[2]
    assert r"no \x1b[1mdisk" in rows[1]
    assert all(width(row) <= 80 for row in rows)
