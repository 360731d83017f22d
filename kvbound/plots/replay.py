"""Replays: the time of every batch predicted against measured, and each schedule's value both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvbound.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (style.BLUE, style.ORANGE, style.VERMILLION, style.SKY, style.PURPLE, style.BLACK)
MARKERS = "osv^D<>pX*"
Seconds = Sequence[float]


def plot_replay(
    report: Mapping[str, Any], batches: Mapping[str, tuple[Seconds, Seconds]], path: str | Path | None = None
) -> Figure:
    """Draw a report of `gpu_validation.replay`; `batches`: predicted and measured seconds of the batches."""
    with style.applied():
        figure = style.new_figure(8, 3.4)
        left, right = figure.subplots(1, 2)
        predicted_against_measured(left, batches)
        values(right, report)
    if path is not None:
        style.save(figure, path)
    return figure


def predicted_against_measured(ax: Axes, batches: Mapping[str, tuple[Seconds, Seconds]]) -> Axes:
    """Draw a point for every batch, in milliseconds, above and below the line where the prediction is true."""
    every = [1000 * s for pair in batches.values() for each in pair for s in each]
    ends = (0.8 * min(every), 1.25 * max(every))
    ax.plot(ends, ends, color="0.6", linewidth=0.8)
    for k, (name, (predicted, measured)) in enumerate(batches.items()):
        ax.plot(
            [1000 * s for s in predicted],
            [1000 * s for s in measured],
            linestyle="none",
            label=name,
            color=COLOURS[k % len(COLOURS)],
            marker=MARKERS[k % len(MARKERS)],
            markersize=3,
            alpha=0.6,
        )
    ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    ax.set_xlabel("predicted, ms a batch")
    ax.set_ylabel("measured, ms a batch")
    ax.legend(frameon=False)
    return ax


def values(ax: Axes, report: Mapping[str, Any]) -> Axes:
    """Draw the objective of each schedule, predicted and measured, as bars from zero."""
    rows = report["rows"]
    for k, (key, colour) in enumerate((("predicted", style.SKY), ("measured", style.BLUE))):
        places = [i + 0.4 * (k - 0.5) for i in range(len(rows))]
        ax.bar(places, [row[key] for row in rows], width=0.38, color=colour, label=key)
    ax.set_xticks(range(len(rows)), [row["schedule"] for row in rows], rotation=20)
    ax.set_ylim(bottom=0)
    ax.set_ylabel(f"{report['objective']}, s")
    ax.legend(frameon=False)
    return ax
