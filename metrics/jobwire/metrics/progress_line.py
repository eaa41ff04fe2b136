"""What a person sees of a run: one line that is rewritten, or now and then a line in a log."""

import json
from typing import Any, Self, TextIO

from jobwire.core.clock import Clock, utc_timestamp

_LOG_SECONDS = 10.0
_WIDTH = 110


class ProgressLine:
    """Shows reports on `out`: rewritten in place on a terminal, every 10 s elsewhere, as JSON if asked."""

    def __init__(self, out: TextIO, *, clock: Clock, as_json: bool) -> None:
        self._out = out
        self._clock = clock
        self._as_json = as_json
        self._terminal = out.isatty() and not as_json
        self._shown_at = clock.monotonic() - _LOG_SECONDS
        self._rows = 0
        self._open = False

    def __call__(self, report: dict[str, Any]) -> None:
        """Show one report."""
        if self._as_json:
            if report["kind"] in {"note", "ready"}:
                self._write(json.dumps(report))
            return
        match report["kind"]:
            case "ready":
                self._write(f"Spark {report['spark']} is up; its log: {report['log']}")
            case "note":
                self._write(report["text"])
            case "batch":
                self._batch(report)

    def _batch(self, report: dict[str, Any]) -> None:
        self._rows += report["rows"]
        now = self._clock.monotonic()
        if not self._terminal and now < self._shown_at + _LOG_SECONDS:
            return
        watermark = report.get("watermark_at")
        parts = [
            f"{self._rows:,} rows",
            f"{report['rows']:,} in batch {report['batch']} ({report.get('duration_ms', 0)} ms)",
            f"backlog {report['backlog']:,}",
        ]
        if watermark:
            parts.append(f"watermark {utc_timestamp(watermark)[:19]}Z")
        line = ", ".join(parts)
        if self._terminal:
            self._out.write(f"\r{line[:_WIDTH]:<{_WIDTH}}")
            self._out.flush()
            self._open = True
        else:
            self._write(line)
        self._shown_at = now

    def _write(self, text: str) -> None:
        self._finish()
        self._out.write(f"{text}\n")
        self._out.flush()

    def _finish(self) -> None:
        if self._open:
            self._out.write("\n")
            self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._finish()
