"""Schedules side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kvbound.plots import style
from kvbound.plots.frame import FAR, Frame, far
from kvbound.plots.gantt import ROW, draw_gantt, draw_memory, draw_reuses, legend, rows_height
from kvbound.plots.style import Axes, Figure
from kvbound.timeline import Kind
from kvbound.units import units_of
from kvcore.errors import BadInput
from kvcore.metrics import makespan
from kvcore.trace import Trace

COLUMNS = 4  # the most schedules side by side; more of them fill several bands, one below the other
ALONE = 8.3  # inches of a schedule that has a line of a page for itself


def compare_schedules(columns: Sequence[tuple[str, Trace]], path: str | Path | None = None) -> Figure:
    """Draw schedules side by side, one (title, trace) a column: Gantt above memory, all axes shared, one legend.

    Two spaces in a title separate parts, which share a line if they fit. Of three or more schedules, one of more than
    `FAR` times the median length is left out, with a note. A `path` saves the figure. BadInput: no column.
    """
    if not columns:
        raise BadInput("no schedule to draw: give at least one pair (title, trace)")
    columns, note = _without_far(columns)
    traces = [trace for _, trace in columns]
    return _draw(columns, Frame.of(traces), _Sheet.of(traces), path, note)


def draw_schedule(trace: Trace, frame: Frame) -> Figure:
    """Draw one schedule, without a title, on the axes of others; as high as its rows need."""
    return _draw([("", trace)], frame, _Sheet(1, 1, ALONE, max(ROW * len(trace.requests), 0.75)))


def _draw(
    columns: Sequence[tuple[str, Trace]], frame: Frame, sheet: _Sheet, path: str | Path | None = None, note: str = ""
) -> Figure:
    with style.sheet(sheet.width, sheet.height, path) as figure:
        kinds: set[Kind] = set()
        handles: dict[str, Any] = {}  # by label
        axes = _axes_of(figure, sheet, [trace for _, trace in columns])
        for (title, trace), (above, below) in zip(columns, axes, strict=True):
            kinds |= draw_gantt(above, trace, frame, sheet.rows)
            drawn = [*draw_reuses(above, trace, frame), *draw_memory(below, trace, frame)]
            handles |= {handle.get_label(): handle for handle in drawn}
            above.set_title(_title(title, int(13 * sheet.column)), loc="left", parse_math=False)
            below.set_xlabel(f"time ({frame.units.time})")
        if note:
            figure.supxlabel(note, fontsize=style.SMALL, x=0.01, ha="left", parse_math=False)
        figure.legend(**legend(kinds, [*handles.values()]), loc="outside lower center", ncols=int(sheet.width / 1.6))
    return figure


def _without_far(columns: Sequence[tuple[str, Trace]]) -> tuple[Sequence[tuple[str, Trace]], str]:
    beyond = far([float(makespan(trace) * trace.instance.tick_seconds) for _, trace in columns])
    left = [
        f"{title.splitlines()[0]} ({units_of(trace.instance).spelled(makespan(trace))})"
        for (title, trace), out in zip(columns, beyond, strict=True)
        if out
    ]
    kept = [column for column, out in zip(columns, beyond, strict=True) if not out]
    return kept, f"Not drawn, more than {FAR} times the median length: {', '.join(left)}" if left else ""


class _Sheet(NamedTuple):
    across: int
    bands: int
    column: float
    rows: float

    @classmethod
    def of(cls, traces: Sequence[Trace]) -> _Sheet:
        bands = -(-len(traces) // COLUMNS)
        across = -(-len(traces) // bands)
        column = {1: 5.2, 2: 3.2, 3: 2.3, 4: 1.9}.get(across, 1.55)
        return cls(across, bands, column, max(map(rows_height, traces)))

    @property
    def width(self) -> float:
        return 0.7 + self.across * self.column

    @property
    def height(self) -> float:
        return 0.4 + self.bands * (self.rows + 1.7)


def _axes_of(figure: Figure, sheet: _Sheet, traces: Sequence[Trace]) -> list[tuple[Axes, Axes]]:
    grid = figure.subplots(
        2 * sheet.bands, sheet.across, squeeze=False, sharex=True, height_ratios=[sheet.rows, 1] * sheet.bands
    )
    pairs = [(grid[2 * band][k], grid[2 * band + 1][k]) for band in range(sheet.bands) for k in range(sheet.across)]
    for above, below in pairs[len(traces) :]:
        above.remove()
        below.remove()
    for k, (trace, (above, below)) in enumerate(zip(traces, pairs, strict=False)):
        left = k % sheet.across == 0
        same_rows = list(trace.instance.index) == list(traces[k - k % sheet.across].instance.index)
        below.set_ylabel(f"KV ({units_of(trace.instance).kv})".replace(" of ", "\nof ") if left else "")
        below.tick_params(axis="y", labelleft=left)
        below.tick_params(axis="x", labelbottom=True)
        above.tick_params(axis="y", labelleft=left or not same_rows)
        above.tick_params(axis="x", labelbottom=False)
    return pairs[: len(traces)]


def _title(text: str, most: int) -> str:
    lines: list[str] = []
    for line in text.split("\n"):
        parts = line.split("  ")
        if len(line) <= most:
            lines.append("\u2003".join(parts))  # an em space, as SVG makes one of two spaces
        else:
            lines += [piece for part in parts for piece in textwrap.wrap(part, most)]
    return "\n".join(lines)
