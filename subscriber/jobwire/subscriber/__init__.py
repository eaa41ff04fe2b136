"""Watch jobs in the foreground until their verdict."""

from jobwire.subscriber.fleet import Mode
from jobwire.subscriber.formats import LineFormat, Style, json_line, summary
from jobwire.subscriber.outcome import EventLine, Line, Note, Outcome, Refusal, Verdict, Verdicts
from jobwire.subscriber.printer import LinePrinter, line_printer
from jobwire.subscriber.refusals import RefusalLog
from jobwire.subscriber.subscriber import Subscriber, watch_jobs

__all__ = [
    "EventLine",
    "Line",
    "LineFormat",
    "LinePrinter",
    "Mode",
    "Note",
    "Outcome",
    "Refusal",
    "RefusalLog",
    "Style",
    "Subscriber",
    "Verdict",
    "Verdicts",
    "json_line",
    "line_printer",
    "summary",
    "watch_jobs",
]
