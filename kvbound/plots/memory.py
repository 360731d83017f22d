"""The memory chart: KV on the device and on the host over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvbound.plots import style
from kvbound.plots.frame import Frame, set_time
from kvbound.plots.style import BLACK, BLUE, PALE, VERMILLION
from kvcore.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


def memory(trace: Trace, ax: Axes | None = None) -> Axes:
    """Draw device memory over time as a step curve under its limit, and host memory if any is used; return the Axes.

    The y axis is in tokens of KV, or in blocks where the instance is coarse, the x axis as in `gantt`. A new figure is
    made if `ax` is None.
    """
    frame = Frame.of([trace])
    with style.applied():
        ax = style.new_axes(7, 1.8) if ax is None else ax
        lines = draw_memory(ax, trace, frame)
        ax.set_xlabel(f"time ({frame.units.time})")
        ax.set_ylabel(f"KV ({frame.units.kv})")
        if lines:
            ax.legend(handles=lines, loc="upper left", bbox_to_anchor=(1.01, 1.02), **style.LEGEND)
    return ax


def draw_memory(ax: Axes, trace: Trace, frame: Frame) -> list[Line2D]:
    """Draw the curves and return the lines that need a legend: that of the host, if it is used."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    curve = trace.memory_curve()
    if curve[0][0] > 0:
        curve.insert(0, (0, 0))
    times = [tick * frame.scale(trace) for tick, _ in curve]
    tokens = [held for _, held in curve]
    as_image = len(curve) > style.VECTORS
    ax.fill_between(times, tokens, step="post", color=PALE, linewidth=0, rasterized=as_image)
    ax.step(times, tokens, where="post", color=BLUE, linewidth=1.1, label="device memory", rasterized=as_image)
    lines = _draw_host(ax, trace, frame)
    _draw_limit(ax, trace.instance.machine.memory, frame)
    ax.set_ylim(0, frame.top)
    ax.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    ax.yaxis.set_major_formatter(FuncFormatter(style.number))
    style.tidy(ax)
    set_time(ax, frame)
    return lines


def _draw_host(ax: Axes, trace: Trace, frame: Frame) -> list[Line2D]:
    curve = trace.host_curve()
    times, tokens = [tick * frame.scale(trace) for tick, _ in curve], [held for _, held in curve]
    if not any(tokens):
        return []
    lines: list[Line2D] = ax.step(
        times, tokens, where="post", color=VERMILLION, linewidth=0.8, linestyle="--", label="host memory"
    )
    return lines


def _draw_limit(ax: Axes, limit: int | None, frame: Frame) -> None:
    """Draw the capacity line with its name, or say with an arrow that it is above the axis."""
    if limit is None:
        return
    above = limit > frame.top
    text, y = "↑ " * above + f"memory {limit:,}", min(limit, frame.top)
    if not above:
        ax.axhline(limit, color=BLACK, linewidth=0.8, label="memory limit")
    ax.annotate(
        text, (1, y), xycoords=ax.get_yaxis_transform(), xytext=(0, -2 if above else 2), textcoords="offset points",
        ha="right", va="top" if above else "bottom", fontsize=style.SMALL,
    )  # fmt: skip
