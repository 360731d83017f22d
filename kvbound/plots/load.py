"""Load plots: measures over the rate of arrivals, a line for each policy, as the papers draw them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvbound.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
PANELS = (
    ("latency", "mean", "mean latency, s"),
    ("latency", "p99", "P99 latency, s"),
    ("normalized_latency_without_calls", "p50", "median normalized latency\nwithout calls, s/token"),
    ("ttft", "mean", "mean TTFT, s"),
    ("ttft", "p99", "P99 TTFT, s"),
    ("goodput_per_second", "", "goodput, requests/s"),
)
MARKERS = "osv^D<>pX*"
COLOURS = (style.BLUE, style.ORANGE, style.VERMILLION, style.SKY, style.PURPLE, style.BLACK)


def plot_load(rows: Sequence[Row], path: str | Path | None = None) -> Figure:
    """Draw six measures over the rate of arrivals for rows of `heuristics.load.load_rows`; write it to `path` if given.

    Rows that could not run are left out. Where all requests arrive at once, the x axis is the factor of the load.
    """
    with style.applied():
        figure = style.new_figure(9, 5)
        axes = figure.subplots(2, 3).flat
        for ax, (name, part, label) in zip(axes, PANELS, strict=True):
            draw_measure(ax, rows, name, part)
            ax.set_ylabel(label)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=min(6, len(labels)), frameon=False)
    if path is not None:
        style.save(figure, path)
    return figure


def draw_measure(ax: Axes, rows: Sequence[Row], name: str, part: str) -> Axes:
    """Draw one measure of every policy over the load, from zero; return the Axes."""
    highest = 0.0
    for k, policy in enumerate(dict.fromkeys(row["policy"] for row in rows)):
        points = sorted(_points([row for row in rows if row["policy"] == policy], name, part))
        highest = max([highest, *(y for _, y in points)])
        ax.plot(
            [x for x, _ in points],
            [y for _, y in points],
            label=policy,
            color=COLOURS[k % len(COLOURS)],
            marker=MARKERS[k % len(MARKERS)],
            markersize=3,
            linewidth=1,
            linestyle="-" if k < len(COLOURS) else "--",
        )
    ax.set_ylim(0, 1.06 * highest or 1)
    ax.set_xlim(left=0)
    ax.set_xlabel("arrivals per second" if all(row["rate"] is not None for row in rows) else "load, times")
    return ax


def _points(rows: Sequence[Row], name: str, part: str) -> list[tuple[float, float]]:
    points = []
    for row in rows:
        measured = row.get("measures", {}).get(name)
        if measured is not None:
            x = row["rate"] if row["rate"] is not None else _number(row["factor"])
            points.append((float(x), float(measured[part] if part else measured)))
    return points


def _number(text: str) -> float:
    above, _, below = text.partition("/")
    return int(above) / int(below or 1)
