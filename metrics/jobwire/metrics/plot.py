"""Three pictures of the fleet: throughput, how long jobs take, how long they wait."""

from pathlib import Path
from typing import Any

from jobwire.core.errors import ConfigError
from jobwire.metrics.buckets import DURATION, WAITED, middle_us
from jobwire.metrics.database import Row, open_tables
from jobwire.metrics.statements import queries
from jobwire.storage.named_files import check_target

_SUFFIXES = frozenset({".png", ".svg", ".pdf"})
_COLOURS = {
    "started": "#4c72b0",
    "progress": "#8da0cb",
    "permission_required": "#e5ae38",
    "completed": "#55a868",
    "error": "#c44e52",
    "refused": "#7f7f7f",
}
_BINS = 30


def plot(sink: str, out: Path, *, now: float, minutes: float) -> Path:
    """Draw the last `minutes` before `now` (epoch seconds) into `out` and return it.

    Raises ConfigError for another suffix than .png, .svg or .pdf, NotFoundError before the first run,
    and SinkError.
    """
    if out.suffix not in _SUFFIXES:
        raise ConfigError(f"cannot draw a {out.suffix or 'nameless'} file", hint="use .png, .svg or .pdf")
    check_target(out, "picture")
    database, sql = open_tables(sink), queries()
    try:
        since = int(now - minutes * 60)
        width = 10 if minutes <= 30 else 60  # noqa: PLR2004 - some 180 bars at most
        windows = database.rows(sql["plot_windows"], (width, since))
        refused = database.rows(sql["plot_rejections"], (width, since))
        lengths = database.rows(sql["plot_lengths"], (width, since))
    finally:
        database.close()
    counts = [*windows, *((start, "refused", n) for start, n in refused)]
    out.parent.mkdir(parents=True, exist_ok=True)
    figure(counts, lengths, width=width, span=(since, now)).savefig(out, dpi=110)
    return out


def figure(counts: list[Row], lengths: list[Row], *, width: int, span: tuple[float, float]) -> Any:
    """Return the pictures as a matplotlib figure.

    `counts` are (start, kind, messages) of windows of `width` seconds, `lengths` are
    (measure, outcome, bucket, jobs) of buckets.py, `span` is the time shown, in epoch seconds.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 - a second

    made = Figure(figsize=(10, 11), layout="constrained")
    top, middle, bottom = made.subplots(3, 1)
    _draw_throughput(top, counts, width, span)
    for axes, measure, title in (
        (middle, DURATION, "duration of finished jobs (s)"),
        (bottom, WAITED, "time that finished jobs waited for you (s)"),
    ):
        _draw_histogram(axes, [row[1:] for row in lengths if row[0] == measure], title=title)
    return made


def _draw_throughput(axes: Any, counts: list[Row], width: int, span: tuple[float, float]) -> None:
    bottom: dict[int, float] = {}
    for kind, colour in _COLOURS.items():
        bars = sorted((start, n / width) for start, name, n in counts if name == kind)
        if not bars:
            # An empty series would stand in the legend in matplotlib's own colour.
            continue
        axes.bar(
            [(span[1] - start) / 60 for start, _ in bars],
            [rate for _, rate in bars],
            width=-width / 60,
            bottom=[bottom.get(start, 0.0) for start, _ in bars],
            color=colour,
            label=kind,
            align="edge",
        )
        for start, rate in bars:
            bottom[start] = bottom.get(start, 0.0) + rate
    axes.set_xlim((span[1] - span[0]) / 60, 0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("minutes ago")
    axes.set_ylabel("messages a second")
    axes.set_title(f"throughput, windows of {width} s")
    if bottom:
        axes.legend(loc="upper left", fontsize="small")
    else:
        _say(axes, "no messages")


def _draw_histogram(axes: Any, lengths: list[Row], *, title: str) -> None:
    outcomes = [name for name in ("completed", "error") if any(row[0] == name for row in lengths)]
    values = [[middle_us(row[1]) / 1e6 for row in lengths if row[0] == name] for name in outcomes]
    jobs = [[row[2] for row in lengths if row[0] == name] for name in outcomes]
    axes.set_title(title)
    axes.set_ylabel("jobs")
    if not values:
        _say(axes, "no finished jobs")
        return
    longest = max(map(max, values)) or 1.0
    colours = [_COLOURS[name] for name in outcomes]
    axes.hist(
        values, weights=jobs, bins=_BINS, range=(0, longest), stacked=True, color=colours, label=outcomes
    )
    axes.set_xlim(0, longest)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.legend(fontsize="small")


def _say(axes: Any, text: str) -> None:
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
