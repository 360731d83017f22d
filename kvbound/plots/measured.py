"""Measured batches beside what a cost model predicts of them, of a calibration and of a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvbound.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
Seconds = Sequence[float]
Batches = Mapping[str, tuple[Seconds, Seconds]]
"""Predicted and measured seconds of batches, by what they have in common."""


def plot_calibration(rows: Sequence[Row], path: str | Path | None = None) -> Figure:
    """Draw predicted against measured milliseconds, and the relative errors; write it to `path` if given.

    `rows` have `label`, `seconds_median`, `predicted` and `error`, as `gpu_validation.calibration` makes them.
    """
    kinds = {label: [row for row in rows if row["label"] == label] for label in dict.fromkeys(r["label"] for r in rows)}
    with style.sheet(8, 3.6, path) as figure:
        left, right = figure.subplots(1, 2)
        draw_predicted(left, {
            label: ([row["predicted"] for row in kind], [row["seconds_median"] for row in kind])
            for label, kind in kinds.items()
        })  # fmt: skip
        for k, kind in enumerate(kinds.values()):
            times = [1e3 * row["predicted"] for row in kind]
            right.plot(times, [100 * row["error"] for row in kind], linestyle="", **style.dots(k))
        right.axhline(0, color=style.GREY, linewidth=0.6)
        right.set(xscale="log", xlabel="predicted, ms a batch", ylabel="error, % of measured")
        style.tidy(right)
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=5, frameon=False)
    return figure


def plot_replay(report: Mapping[str, Any], batches: Batches, path: str | Path | None = None) -> Figure:
    """Draw a report of `gpu_validation.replay`, with the batches by schedule; write it to `path` if given."""
    with style.sheet(8, 3.4, path) as figure:
        left, right = figure.subplots(1, 2)
        draw_predicted(left, batches).legend(frameon=False)
        draw_values(right, report)
    return figure


def draw_predicted(ax: Axes, batches: Batches) -> Axes:
    """Draw a dot for each batch, above and below the line where the prediction is true; return the Axes."""
    every = [1e3 * s for pair in batches.values() for each in pair for s in each]
    ends = (0.8 * min(every), 1.25 * max(every))
    ax.plot(ends, ends, color=style.GREY, linewidth=0.6)
    for k, (name, pair) in enumerate(batches.items()):
        predicted, measured = ([1e3 * s for s in each] for each in pair)
        ax.plot(predicted, measured, linestyle="", label=name, alpha=0.6, **style.dots(k))
    ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    ax.set(xlabel="predicted, ms a batch", ylabel="measured, ms a batch")
    style.tidy(ax)
    return ax


def plot_record(record: Mapping[str, Any], path: str | Path | None = None) -> Figure:
    """Draw a record of `benchmarks.agreement`: the total flow time of each schedule, predicted and measured.

    Above the bars stands how many times that of the best schedule it is, predicted and measured.
    """
    with style.sheet(8, 3.2, path) as figure:
        axes = figure.subplots(1, len(record["tables"]), squeeze=False)[0]
        for ax, part in zip(axes, record["tables"], strict=True):
            rows = [dict(zip(part["columns"], row, strict=True)) for row in part["rows"]]
            values = [{"schedule": row["schedule"], **{key: float(row[f"{key}, s"]) for key in PAIR}} for row in rows]
            draw_values(ax, {"rows": values, "objective": "total flow time"}).set_title(part["notes"].split("`")[1])
            for k, row in enumerate(rows):
                ratios = "\n".join(f"{float(row[f'{key} / best']):.2f}" for key in PAIR)
                top = max(values[k][key] for key in PAIR)
                ax.annotate(ratios, (k, top), (0, 2), textcoords="offset points", ha="center", fontsize=style.SMALL)
            ax.set_ylim(top=1.18 * max(value[key] for value in values for key in PAIR))
    return figure


PAIR = ("predicted", "measured")


def draw_values(ax: Axes, report: Mapping[str, Any]) -> Axes:
    """Draw the objective of each schedule, predicted and measured, as bars from zero; return the Axes."""
    rows = report["rows"]
    for k, (key, colour) in enumerate(zip(PAIR, (style.SKY, style.BLUE), strict=True)):
        places = [i + 0.4 * (k - 0.5) for i in range(len(rows))]
        ax.bar(places, [row[key] for row in rows], width=0.38, color=colour, label=key)
    ax.set_xticks(range(len(rows)), [row["schedule"] for row in rows], rotation=30, ha="right")
    ax.set_ylim(bottom=0)
    ax.set_ylabel(f"{report['objective']}, s")
    ax.legend(frameon=False)
    return ax
