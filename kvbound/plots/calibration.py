"""Measured batches beside what a cost model predicts of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvbound.plots import style
from kvbound.plots.load import COLOURS, MARKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]


def plot_calibration(rows: Sequence[Row], path: str | Path | None = None) -> Figure:
    """Draw predicted over measured milliseconds, and the relative errors; write it to `path` if given.

    `rows` have `label`, `seconds_median`, `predicted` and `error`, as `gpu_validation.calibration` makes them.
    """
    with style.applied():
        figure = style.new_figure(8, 3.6)
        left, right = figure.subplots(1, 2)
        draw_predicted(left, rows)
        draw_errors(right, rows)
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=5, frameon=False)
    if path is not None:
        style.save(figure, path)
    return figure


def draw_predicted(ax: Axes, rows: Sequence[Row]) -> Axes:
    """Draw a dot for each batch, and the diagonal on which a true model has them; return the Axes."""
    _dots(ax, rows, lambda row: 1e3 * float(row["predicted"]))
    ends = [1e3 * end(float(row["seconds_median"]) for row in rows) for end in (min, max)]
    ax.plot(ends, ends, color=style.GREY, linewidth=0.6)
    ax.set_yscale("log")
    ax.set_ylabel("predicted, ms")
    return ax


def draw_errors(ax: Axes, rows: Sequence[Row]) -> Axes:
    """Draw the relative error of each batch; return the Axes."""
    _dots(ax, rows, lambda row: 100 * float(row["error"]))
    ax.axhline(0, color=style.GREY, linewidth=0.6)
    ax.set_ylabel("error, % of measured")
    return ax


def _dots(ax: Axes, rows: Sequence[Row], height: Any) -> None:
    for k, label in enumerate(dict.fromkeys(row["label"] for row in rows)):
        labelled = [row for row in rows if row["label"] == label]
        ax.plot(
            [1e3 * row["seconds_median"] for row in labelled], [height(row) for row in labelled],
            linestyle="", markersize=3, label=label, marker=MARKERS[k % len(MARKERS)], color=COLOURS[k % len(COLOURS)],
        )  # fmt: skip
    ax.set_xscale("log")
    ax.set_xlabel("measured, ms")
    style.tidy(ax)
