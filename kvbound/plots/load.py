"""Load plots: measures over the rate of arrivals, a line for each policy, as the papers draw them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvbound.plots import style
from kvbound.plots.frame import far
from kvbound.tables import rate_unit
from kvbound.units import Units

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
PANELS = (
    ("latency", "mean", "mean latency, {time}"),
    ("latency", "p99", "P99 latency, {time}"),
    ("normalized_latency_without_calls", "p50", "median normalized latency\nwithout calls, {time}/token"),
    ("ttft", "mean", "mean TTFT, {time}"),
    ("ttft", "p99", "P99 TTFT, {time}"),
    ("goodput_per_second", "", "goodput, requests/{rate}"),
)
SECONDS = Units("s", Fraction(1), Fraction(1))


def plot_load(rows: Sequence[Row], path: str | Path | None = None, units: Units = SECONDS) -> Figure:
    """Draw six measures over the rate of arrivals for rows of `heuristics.load.load_rows`; write it to `path` if given.

    Rows that could not run are left out. Where all requests arrive at once, the x axis is the factor of the load. A
    hollow marker is a run in which the queue grows. A policy that dwarfs the others leaves the axes, and is named.
    """
    rate = rate_unit(units)
    with style.sheet(9, 5, path) as figure:
        axes = figure.subplots(2, 3).flat
        for ax, (name, part, label) in zip(axes, PANELS, strict=True):
            draw_measure(ax, rows, name, part, 1 if name == "goodput_per_second" else float(units.seconds))
            ax.set_ylabel(label.format(time=units.time, rate=rate))
            if "arrivals" in ax.get_xlabel():
                ax.set_xlabel(f"arrivals per {'tick' if rate == 'tick' else 'second'}")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=min(6, len(labels)), frameon=False)
        if any(row.get("stationary") is False for row in rows):
            figure.supxlabel("hollow: the queue grows over the run, its percentiles mean nothing", fontsize=style.SMALL)
    return figure


def draw_measure(ax: Axes, rows: Sequence[Row], name: str, part: str, unit: float = 1) -> Axes:
    """Draw one measure of every policy over the load, in a unit of so many seconds, from zero; return the Axes."""
    highest: dict[str, float] = {}
    for k, policy in enumerate(dict.fromkeys(row["policy"] for row in rows)):
        points = sorted(_points([row for row in rows if row["policy"] == policy], name, part, unit))
        if points:
            highest[policy] = max(y for _, y, _ in points)
        line = {"linewidth": 1, "linestyle": "-" if k < len(style.SERIES) else "--", **style.dots(k)}
        ax.plot([x for x, _, _ in points], [y for _, y, _ in points], label=policy, **line)
        hollow = [(x, y) for x, y, grows in points if grows]
        if hollow:
            ax.plot(*zip(*hollow, strict=True), **line | {"linestyle": ""}, markerfacecolor=style.WHITE)
    beyond = [policy for policy, out in zip(highest, far(list(highest.values())), strict=True) if out]
    ax.set_ylim(0, 1.06 * max((y for policy, y in highest.items() if policy not in beyond), default=0) or 1)
    if beyond:
        ax.set_title("↑ " + ", ".join(beyond), fontsize=style.SMALL, loc="right", parse_math=False)
    ax.set_xlim(left=0)
    ax.set_xlabel("arrivals per second" if all(row["rate"] is not None for row in rows) else "load, times")
    return ax


def _points(rows: Sequence[Row], name: str, part: str, unit: float) -> list[tuple[float, float, bool]]:
    """Return the load, the measure, and whether the queue grows."""
    points = []
    for row in rows:
        measured = row.get("measures", {}).get(name)
        if measured is not None:
            x = row["rate"] if row["rate"] is not None else Fraction(row["factor"])
            value = float(measured[part] if part else measured) / unit
            points.append((float(x), value, row.get("stationary") is False))
    return points
