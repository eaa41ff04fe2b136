"""Three pictures of the fleet: throughput, how long jobs take, how long they wait."""

from pathlib import Path
from typing import Any

from jobwire.core.errors import ConfigError
from jobwire.metrics.database import Row, open_tables
from jobwire.metrics.statements import queries

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
    database, sql = open_tables(sink), queries()
    try:
        since = int(now - minutes * 60)
        width = 10 if minutes <= 30 else 60  # noqa: PLR2004 - some 180 bars at most
        windows = database.rows(sql["plot_windows"], (width, since))
        refused = database.rows(sql["plot_rejections"], (width, since))
        jobs = database.rows(sql["plot_jobs"], (since,))
    finally:
        database.close()
    counts = [*windows, *((start, "refused", n) for start, n in refused)]
    _draw(counts, jobs, out, width=width, span=(since, now))
    return out


def _draw(counts: list[Row], jobs: list[Row], out: Path, *, width: int, span: tuple[float, float]) -> None:
    import matplotlib as mpl  # noqa: PLC0415 - a second

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the backend is chosen

    figure, (top, left, right) = plt.subplots(3, 1, figsize=(10, 11), constrained_layout=True)
    _draw_throughput(top, counts, width, span)
    _draw_histogram(left, jobs, column=1, title="duration of finished jobs (s)")
    _draw_histogram(right, jobs, column=2, title="time spent waiting for permission (s)")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    plt.close(figure)


def _draw_throughput(axes: Any, counts: list[Row], width: int, span: tuple[float, float]) -> None:
    bottom: dict[int, float] = {}
    for kind, colour in _COLOURS.items():
        bars = sorted((start, n / width) for start, name, n in counts if name == kind)
        axes.bar(
            [(start - span[1]) / 60 for start, _ in bars],
            [rate for _, rate in bars],
            width=width / 60,
            bottom=[bottom.get(start, 0.0) for start, _ in bars],
            color=colour,
            label=kind,
            align="edge",
        )
        for start, rate in bars:
            bottom[start] = bottom.get(start, 0.0) + rate
    axes.set_xlim((span[0] - span[1]) / 60, 0)
    axes.set_xlabel("minutes ago")
    axes.set_ylabel("messages a second")
    axes.set_title(f"throughput, windows of {width} s")
    axes.legend(loc="upper left", fontsize="small")


def _draw_histogram(axes: Any, jobs: list[Row], *, column: int, title: str) -> None:
    outcomes = [name for name in ("completed", "error") if any(job[0] == name for job in jobs)]
    values = [[job[column] for job in jobs if job[0] == name] for name in outcomes]
    if values:
        axes.hist(values, bins=_BINS, stacked=True, color=[_COLOURS[n] for n in outcomes], label=outcomes)
        axes.legend(fontsize="small")
    else:
        axes.text(0.5, 0.5, "no finished jobs", ha="center", va="center", transform=axes.transAxes)
    axes.set_title(title)
    axes.set_ylabel("jobs")
