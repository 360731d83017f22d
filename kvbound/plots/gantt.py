"""The Gantt chart and the memory chart.

A tall bar is work, a half as tall one a call, a low one a ready request that does not work, a line one that holds
nothing. Except for work, a filled bar has its KV on the device, a cross-hatched one on the host, a striped one in part
of either, an empty one nowhere. Diamonds are reuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kvbound.plots import style
from kvbound.plots.frame import Frame, set_time
from kvbound.plots.style import BLACK, BLUE, GREEN, GREY, MINT, ORANGE, PALE, PURPLE, SKY, VERMILLION, WHITE, Axes
from kvbound.timeline import Interval, Kind, timeline
from kvcore.account import contents_curve, forgets_of
from kvcore.trace import Trace


class IntervalStyle(NamedTuple):
    """A kind of interval's legend text, fill, colour of edge and hatch, hatch, and height in rows."""

    text: str
    fill: str
    edge: str
    hatch: str
    height: float


LOOKS: dict[Kind, IntervalStyle] = {
    "prefill": IntervalStyle("prefill", BLUE, WHITE, "", 0.8),
    "decode": IntervalStyle("decode", SKY, WHITE, "", 0.8),
    "recompute": IntervalStyle("recompute", VERMILLION, WHITE, "//////", 0.8),
    "transfer": IntervalStyle("transfer", BLACK, WHITE, "", 0.8),
    "paused": IntervalStyle("ready, KV on device", ORANGE, ORANGE, "", 0.24),
    "swapped-out": IntervalStyle("ready, KV on host", WHITE, ORANGE, "xxxxxx", 0.24),
    "waiting": IntervalStyle("ready, no KV", GREY, GREY, "", 0.0),
    "call-preserved": IntervalStyle("call, KV on device", PURPLE, PURPLE, "", 0.44),
    "call-swapped": IntervalStyle("call, KV on host", WHITE, PURPLE, "xxxxxx", 0.44),
    "call-mixed": IntervalStyle("call, KV in part", WHITE, PURPLE, "\\\\\\\\\\\\", 0.44),
    "call-discarded": IntervalStyle("call, no KV", WHITE, PURPLE, "", 0.44),
}

MARK: dict[str, Any] = {
    "linestyle": "", "markersize": 4, "color": GREEN, "markeredgecolor": WHITE, "markeredgewidth": 0.5,
    "clip_on": False, "zorder": 3,
}  # fmt: skip
BANDS = (("contents, retained", WHITE, "//////"), ("contents, held", MINT, ""))
MARKED = 50  # forgets; of more, smaller marks leave the curves visible
CELL = 3  # where the shortest batch is at least this many points wide, the work of each batch is a cell of its own
LABELS = 40  # the most rows labelled in a Gantt chart; of more requests, every second, third, .. is
ROW = 0.25  # inches of a row that is labelled, and ends with its completion, whatever their number


def gantt(trace: Trace, ax: Axes | None = None) -> Axes:
    """Draw what each request does over time, one row a request, the first on top; return the Axes.

    The x axis is in the instance's unit of time; completions stand at the ends of rows.
    """
    frame = Frame.of([trace])
    with style.applied():
        ax = style.new_axes(7, max(rows_height(trace) + 0.5, 2)) if ax is None else ax
        kinds = draw_gantt(ax, trace, frame)
        ax.set_xlabel(f"time ({frame.units.time})")
        ax.legend(**legend(kinds, draw_reuses(ax, trace, frame)), loc="upper left", bbox_to_anchor=(1.01, 1.02))
    return ax


def draw_gantt(ax: Axes, trace: Trace, frame: Frame, height: float | None = None) -> set[Kind]:
    """Draw the rows in these inches (None: `rows_height`); return the kinds used."""
    rows, scale = timeline(trace), frame.scale(trace)
    cells = min(batch.duration for batch in trace.batches) * scale / frame.end * style.inches(ax) * 72 >= CELL
    as_image = sum(map(len, rows.values())) > style.VECTORS
    for y, intervals in enumerate(rows.values()):
        for kind, look in LOOKS.items():
            spans = [interval for interval in intervals if interval.kind == kind]
            if spans:
                ax.add_artist(_bars(spans, y, scale, look, cells)).set_rasterized(as_image)
    if cells:
        _draw_cells(ax, trace, scale)
    roomy = (height or rows_height(trace)) >= ROW * len(rows)
    for y, request in enumerate(trace.requests if roomy else ()):
        style.write(ax, request.completion * scale, y, frame.text(request.completion * scale), offset=3)
    _set_rows(ax, list(rows), 1 if roomy else -(-len(rows) // LABELS))
    set_time(ax, frame)
    return {interval.kind for intervals in rows.values() for interval in intervals}


def draw_reuses(ax: Axes, trace: Trace, frame: Frame) -> list[style.Line2D]:
    """Mark reuses; return their handles."""
    moves = [(move, y) for y, request in enumerate(trace.requests) for move in request.moves if move.kind == "reuse"]
    times = [trace.batches[move.batch].start * frame.scale(trace) for move, _ in moves]
    return list(ax.plot(times, [y for _, y in moves], marker="D", label="reuse", **MARK)) if moves else []


def _bars(spans: list[Interval], y: int, scale: float, look: IntervalStyle, cells: bool) -> Any:
    """One `PathPatch`: without cells, edges would hide the narrowest bars."""
    import numpy as np
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Outline

    low, high = y - look.height / 2, y + look.height / 2
    times = np.array([(span.start, span.end) for span in spans], dtype=float) * scale
    corners = np.empty((len(spans), 5, 2))
    corners[:, :, 0] = times[:, [0, 1, 1, 0, 0]]
    corners[:, :, 1] = [low, low, high, high, low]
    codes = [Outline.MOVETO, Outline.LINETO, Outline.LINETO, Outline.LINETO, Outline.CLOSEPOLY] * len(spans)
    outline = Outline(corners.reshape(-1, 2), codes)
    edge = 0.6 if cells or look.fill == WHITE or look.height == 0 else 0
    return PathPatch(outline, facecolor=look.fill, edgecolor=look.edge, hatch=look.hatch, linewidth=edge)


def _draw_cells(ax: Axes, trace: Trace, scale: float) -> None:
    half = LOOKS["decode"].height / 2
    for y, request in enumerate(trace.requests):
        starts = [trace.batches[step.batch].start * scale for step in request.steps]
        ax.vlines(starts, y - half, y + half, color=WHITE, linewidth=0.8)


def _set_rows(ax: Axes, ids: list[str], every: int) -> None:
    ax.set_yticks(range(0, len(ids), every), [style.short(id, 14) for id in ids[::every]], parse_math=False)
    ax.set_ylim(len(ids) - 0.4, -0.6)
    style.tidy(ax)
    ax.tick_params(axis="y", length=0)


def legend(kinds: Iterable[Kind], more: Sequence[Any] = ()) -> dict[str, Any]:
    """Return the legend's handles: the kinds used, with colour, hatch and relative height, and more lines."""
    from matplotlib.legend_handler import HandlerPatch
    from matplotlib.patches import Rectangle

    handles = [
        Rectangle((0, 0), 1, look.height, facecolor=look.fill, edgecolor=look.edge, hatch=look.hatch, label=look.text)
        for kind, look in LOOKS.items()
        if kind in kinds
    ]

    def swatch(orig_handle: Any, xdescent: float, ydescent: float, width: float, height: float, **_: Any) -> Any:
        tall = height * orig_handle.get_height() / LOOKS["decode"].height
        return Rectangle((-xdescent, -ydescent + (height - tall) / 2), width, tall)

    return {"handles": [*handles, *more], "handler_map": {Rectangle: HandlerPatch(patch_func=swatch)}, **style.LEGEND}


def rows_height(trace: Trace) -> float:
    """Return the inches of the rows: a quarter each, up to a page."""
    return min(max(ROW * len(trace.requests), 0.75), 7.0)


def memory(trace: Trace, ax: Axes | None = None) -> Axes:
    """Draw device memory over time as a step curve under its limit, and host memory if any is used; return the Axes.

    The y axis is in tokens of KV (in blocks for a coarse instance), the x axis as in `gantt`.
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


def draw_memory(ax: Axes, trace: Trace, frame: Frame) -> list[Any]:
    """Draw the curves; return handles of contents and the host."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    times, tokens = _seen(trace.memory_curve(), ax, trace, frame)
    if times[0] > 0:
        times, tokens = [0, *times], [0, *tokens]
    ax.fill_between(times, tokens, step="post", color=PALE, linewidth=0)
    ax.step(times, tokens, where="post", color=BLUE, linewidth=1.1, label="device memory")
    lines = _draw_contents(ax, trace, frame) + _draw_host(ax, trace, frame)
    _draw_limit(ax, trace.instance.machine.memory, frame)
    ax.set_ylim(0, frame.top)
    ax.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    ax.yaxis.set_major_formatter(FuncFormatter(style.number))
    style.tidy(ax)
    set_time(ax, frame)
    return lines


def _draw_contents(ax: Axes, trace: Trace, frame: Frame) -> list[Any]:
    from matplotlib.patches import Rectangle

    if not trace.instance.contents:
        return []
    curve, handles = contents_curve(trace), list[Any]()
    for (label, fill, hatch), of in zip(BANDS, (0, 1), strict=True):
        times, tokens = _seen([(tick, there - of * retained) for tick, there, retained in curve], ax, trace, frame)
        look: dict[str, Any] = {"facecolor": fill, "edgecolor": GREEN, "hatch": hatch, "linewidth": 0.5}
        ax.fill_between(times, tokens, step="post", **look)
        handles.append(Rectangle((0, 0), 1, 0.8, label=label, **look))
    there, scale = {tick: tokens for tick, tokens, _ in curve}, frame.scale(trace)
    ticks = [trace.batches[j].start for j in forgets_of(trace)]
    if ticks:
        times, tokens = [tick * scale for tick in ticks], [there[tick] for tick in ticks]
        look = MARK if len(ticks) <= MARKED else MARK | {"markersize": 2, "markeredgewidth": 0}
        handles += ax.plot(times, tokens, marker="v", label="forget", **look)
    return handles


def _seen(curve: Sequence[tuple[int, int]], ax: Axes, trace: Trace, frame: Frame) -> tuple[list[float], list[int]]:
    times = [tick * frame.scale(trace) for tick, _ in curve]
    seen: dict[int, tuple[float, int]] = {}
    for time, (_, held) in zip(times, curve, strict=True):
        place = int(time / frame.end * style.inches(ax) * 72 * 2)
        first, most = seen.get(place, (time, held))
        seen[place] = first, max(most, held)
    return [time for time, _ in seen.values()], [held for _, held in seen.values()]


def _draw_host(ax: Axes, trace: Trace, frame: Frame) -> list[style.Line2D]:
    times, tokens = _seen(trace.host_curve(), ax, trace, frame)
    if not any(tokens):
        return []
    lines: list[style.Line2D] = ax.step(
        times, tokens, where="post", color=VERMILLION, linewidth=0.8, linestyle="--", label="host memory"
    )
    return lines


def _draw_limit(ax: Axes, limit: int | None, frame: Frame) -> None:
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
