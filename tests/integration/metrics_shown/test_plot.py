"""The pictures of `jobwire metrics plot`, looked at before they are painted."""

from typing import Any

from matplotlib.colors import to_hex

from jobwire.metrics.plot import figure

NOW = 1_767_225_600.0
SPAN = (NOW - 1800, NOW)


def legend(axes: Any) -> dict[str, str]:
    """Return the colour of each name in a legend."""
    shown = axes.get_legend()
    handles = zip(shown.get_texts(), shown.legend_handles, strict=True)
    return {text.get_text(): to_hex(handle.get_facecolor()) for text, handle in handles}


def test_each_kind_has_its_own_colour() -> None:
    """Error and refused can be told apart, and what did not happen is not in the legend."""
    counts = [(int(NOW) - 600, kind, 5) for kind in ("progress", "error", "refused")]
    shown = legend(figure(counts, [], width=10, span=SPAN).axes[0])
    assert list(shown) == ["progress", "error", "refused"]
    assert len(set(shown.values())) == 3
    assert shown["error"] == "#c44e52"


def test_no_axis_is_negative() -> None:
    """Minutes ago, rates, lengths of time and jobs are counted from zero, also where all of them are zero."""
    jobs = [("duration", "completed", 0, 1), ("waiting", "error", 0, 2)]
    for axes in figure([(int(NOW) - 600, "progress", 5)], jobs, width=10, span=SPAN).axes:
        assert min(*axes.get_xlim(), *axes.get_ylim()) == 0
    bars = figure([(int(NOW) - 600, "progress", 5)], jobs, width=10, span=SPAN).axes[0].patches
    assert [(bar.get_x() + bar.get_width(), bar.get_x()) for bar in bars] == [(10 - 1 / 6, 10.0)]


def test_empty_pictures_say_so() -> None:
    """Without messages and jobs there are words instead of an empty frame."""
    assert [axes.texts[0].get_text() for axes in figure([], [], width=10, span=SPAN).axes] == [
        "no messages",
        "no finished jobs",
        "no finished jobs",
    ]
