"""Measurements: solves, load sweeps, performance profiles, calibrations and replays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from kvbound.plots import style
from kvbound.plots.frame import far
from kvbound.plots.style import Axes, Figure
from kvbound.tables import Row, Rows, rate_unit
from kvbound.units import Units, units_of_row
from kvcore.errors import BadInput

PANELS = (
    ("latency", "mean", "mean latency, {time}"),
    ("latency", "p99", "P99 latency, {time}"),
    ("normalized_latency_without_calls", "p50", "median normalized latency\nwithout calls, {time}/token"),
    ("ttft", "mean", "mean TTFT, {time}"),
    ("ttft", "p99", "P99 TTFT, {time}"),
    ("goodput_per_second", "", "goodput, requests/{rate}"),
)
ATTAINED = ("slo_attainment", "", "share of requests\nthat meet their SLOs")
SECONDS = Units("s", Fraction(1), Fraction(1))
CURVES = {"value": style.VERMILLION, "bound": style.BLUE}


def plot_log(row: Row, path: str | Path | None = None, units: Units | None = None) -> Figure:
    """Draw the `log` of a row of `solve`, value above bound, as two step lines; write them to `path`.

    BadInput: no log.
    """
    if not row.get("log"):
        raise BadInput("there is nothing to draw: the row has no log of values and bounds")
    units = units_of_row(row) if units is None else units
    with style.sheet(6, 3, path) as figure:
        ax = figure.subplots()
        for what, colour in CURVES.items():
            known = [(entry["seconds"], entry[what]) for entry in row["log"] if what in entry]
            known += [(row["seconds"], known[-1][1])] if known else []
            heights = [float(units.size(value, row["objective"])) for _, value in known]
            ax.step([seconds for seconds, _ in known], heights, where="post", color=colour, label=what, linewidth=1)
        ax.set_xlim(0, None)
        ax.set_xlabel("seconds")
        ax.set_ylabel(f"{row['objective']} ({units.of(row['objective'])})")
        style.tidy(ax)
        figure.legend(*ax.get_legend_handles_labels(), loc="outside right upper", **style.LEGEND)
    return figure


def plot_load(
    rows: Rows, path: str | Path | None = None, units: Units = SECONDS, bounds: Rows = (), keep: float | None = None
) -> Figure:
    """Draw six measures over the rate of arrivals for rows of `heuristics.load.load_rows`; write it to `path` if given.

    `bounds`, on the mean latency and on the share that meets its SLOs, are lines. With SLOs, that share replaces
    goodput, with a line at `keep` percent. Rows that could not run are left out. Where all requests arrive at once, the
    x axis is the factor of the load. A hollow marker: the queue grows. A policy that dwarfs the others is only named.
    """
    if rows and all("error" in row for row in rows):
        raise BadInput(f"there is nothing to draw: {rows[0]['error']}")
    rate = rate_unit(units)
    with style.sheet(9, 5, path) as figure:
        axes = figure.subplots(2, 3).flat
        slos = any(row.get("measures", {}).get("slo_attainment") is not None for row in rows)
        panels = (*PANELS[:-1], ATTAINED) if slos else PANELS
        for ax, (name, part, label) in zip(axes, panels, strict=True):
            draw_measure(ax, rows, name, part, float(units.seconds) if part else 1)
            ax.set_ylabel(label.format(time=units.time, rate=rate))
            if "arrivals" in ax.get_xlabel():
                ax.set_xlabel(f"arrivals per {'tick' if rate == 'tick' else 'second'}")
        if slos and keep is not None:
            axes[5].axhline(keep / 100, color="black", linewidth=0.5)
        if bounds:
            for ax, (name, part, _) in [(axes[0], PANELS[0]), *[(axes[5], ATTAINED)] * slos]:
                line = sorted((x, y) for x, y, _ in _points(bounds, name, part, float(units.seconds) if part else 1))
                ax.plot(*zip(*line, strict=True), color="black", linestyle=":", label="any scheduler, at best")
                ax.set_ylim(top=max(ax.get_ylim()[1], *(1.06 * y for _, y in line)))
        style.legend_above(figure, axes[0], 6)
        if any(row.get("stationary") is False for row in rows):
            figure.supxlabel("hollow: the queue grows over the run, its percentiles mean nothing", fontsize=style.SMALL)
    return figure


def draw_measure(ax: Axes, rows: Rows, name: str, part: str, unit: float = 1) -> Axes:
    """Draw one measure of every policy over the load, in a unit of this many seconds, from zero; return the Axes."""
    highest: dict[str, float] = {}
    for k, policy in enumerate(dict.fromkeys(row["policy"] for row in rows)):
        points = sorted(_points([row for row in rows if row["policy"] == policy], name, part, unit))
        if not points:
            continue
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


def _points(rows: Rows, name: str, part: str, unit: float) -> list[tuple[float, float, bool]]:
    points = []
    for row in rows:
        measured = row.get("measures", {}).get(name)
        if measured is not None:
            load = row["rate"] if row["rate"] is not None else Fraction(row["factor"])
            value = float(measured[part] if part else measured) / unit
            points.append((float(load), value, row.get("stationary") is False))
    return points


MOST = 3.0  # times the best known where the axis ends


def plot_profile(lines: Rows, path: str | Path | None = None) -> Figure:
    """Draw a step line for each of `library.policies.profile`, highest on the left is best; write it to `path`.

    `ratios` of a line, in order, are values over the best known, shown up to 3. BadInput: no line.
    """
    if not lines:
        raise BadInput("there is nothing to draw: no value has a best known one to compare with")
    with style.sheet(6, 3.6, path) as figure:
        ax = figure.subplots()
        for k, line in enumerate(lines):
            ratios = line["ratios"]
            shares = [(i + 1) / len(ratios) for i in range(len(ratios))]
            look = {"linewidth": 1, "linestyle": ("-", "--", ":", "-.")[k // len(style.SERIES) % 4]}
            colour = style.SERIES[k % len(style.SERIES)]
            label = f"{line['policy']} ({len(ratios)})"
            ax.step([1, *ratios, MOST], [0, *shares, shares[-1]], where="post", color=colour, label=label, **look)
        ax.set_xscale("log")
        ax.set_xlim(1, MOST)
        ax.set_ylim(0, 1.02)
        ticks = (1, 1.1, 1.25, 1.5, 2, 2.5, 3)
        ax.set_xticks(ticks, [style.number(tick) for tick in ticks], minor=False)
        ax.set_xticks([], minor=True)
        ax.set_xlabel("times the best known")
        ax.set_ylabel("share of values")
        style.tidy(ax)
        figure.legend(*ax.get_legend_handles_labels(), loc="outside right upper", **style.LEGEND)
    return figure


Seconds = Sequence[float]
Batches = Mapping[str, tuple[Seconds, Seconds]]  # predicted, measured


def plot_calibration(rows: Rows, path: str | Path | None = None) -> Figure:
    """Draw predicted against measured milliseconds, and the relative errors; write it to `path` if given.

    `rows` are those of `gpu_validation.calibration`, with `label`, `seconds_median`, `predicted` and `error`.
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
        style.legend_above(figure, left, 5)
    return figure


def plot_replay(report: Row, batches: Batches, path: str | Path | None = None) -> Figure:
    """Draw a report of `gpu_validation.replay`, with the batches by schedule; write it to `path` if given."""
    with style.sheet(8, 3.4, path) as figure:
        left, right = figure.subplots(1, 2)
        draw_predicted(left, batches).legend(frameon=False)
        draw_values(right, report)
    return figure


def draw_predicted(ax: Axes, batches: Batches) -> Axes:
    """Draw a dot for each batch beside the line of true predictions; return the Axes."""
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


def plot_record(record: Row, path: str | Path | None = None) -> Figure:
    """Draw a record of `benchmarks.agreement`: the total flow times, predicted and measured.

    The ratios to the best schedule stand above the bars.
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


def draw_values(ax: Axes, report: Row) -> Axes:
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
