"""Attention kernels side by side: bytes read a second in decodes, operations a second elsewhere, and the limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvbound.plots import style
from kvcore.errors import BadInput

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]


def plot_kernels(rows: Sequence[Row], limits: Mapping[str, float], path: str | Path | None = None) -> Figure:
    """Draw the rows of `gpu_validation.attention_bench.bench`, those that were timed; write it to `path` if given.

    `limits` are the measured rates of "read", "copy" and "matmul". BadInput where no row was timed.
    """
    timed = [row for row in rows if "seconds_median" in row]
    if not timed:
        raise BadInput("there is nothing to draw: no kernel could be timed")
    peers = list(dict.fromkeys(row["peer"] for row in timed))
    decodes, others = ([row for row in timed if (row["kind"] == "decode") is of] for of in (True, False))
    with style.sheet(9, 1.2 + 0.24 * max(len(_cases(decodes)), len(_cases(others)), 4), path) as figure:
        left, right = figure.subplots(1, 2)
        draw_rates(left, decodes, peers, "bytes_per_second", 1e9, {k: limits[k] for k in ("read", "copy")})
        left.set_xlabel("decode: KV read, GB/s")
        draw_rates(right, others, peers, "flop_per_second", 1e12, {"matmul": limits["matmul"]})
        right.set_xlabel("prefill and mixed: TFLOP/s")
        handles, labels = (left if decodes else right).get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    return figure


def draw_rates(
    ax: Axes, rows: Sequence[Row], peers: Sequence[str], key: str, unit: float, limits: Mapping[str, float]
) -> Axes:
    """Draw the rate of every kernel on every case, first case on top, and the limits as lines; return the Axes."""
    cases = _cases(rows)
    for k, peer in enumerate(peers):
        points = [(row[key] / unit, cases.index(_case(row))) for row in rows if row["peer"] == peer]
        ax.plot([x for x, _ in points], [y for _, y in points], linestyle="", label=peer, **style.dots(k))
    for name, limit in limits.items():
        ax.axvline(limit / unit, color=style.GREY, linewidth=0.8, linestyle="-" if name == "read" else "--")
        ax.annotate(
            name, (limit / unit, -0.6), rotation=90, fontsize=style.SMALL, va="top", ha="right", color=style.GREY
        )
    ax.set_yticks(range(len(cases)), cases)
    ax.set_ylim(len(cases) - 0.4, -0.6)
    ax.set_xlim(left=0)
    style.tidy(ax)
    return ax


def _case(row: Row) -> str:
    return f"{row['model']}, {row['case']}"


def _cases(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(_case(row) for row in rows))
