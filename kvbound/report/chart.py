"""The picture of a schedule in a report: that of `kvbound.plots`, with tips.

An invisible area above a bar has the meaning in its attribute `data-tip`, which `report.js` shows.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple
from xml.etree.ElementTree import Element

from kvbound.plots.compare import draw_schedule
from kvbound.plots.frame import Frame
from kvbound.plots.gantt import LOOKS
from kvbound.plots.style import Axes
from kvbound.report.markup import inline, node
from kvbound.tables import NAMED, few
from kvbound.timeline import Kind, activities
from kvbound.units import Units
from kvcore.account import Period, Residence, Saving, residence, savings
from kvcore.metrics import makespan
from kvcore.trace import BatchTrace, Trace

CELLS = 1_500  # batch steps of all requests up to which each is a bar; beyond, those without a break are one


class Bar(NamedTuple):
    """A request does one thing from tick `start` to tick `end`; KV is in tokens of this request."""

    start: int
    end: int
    kind: Kind
    device: int  # KV on the device at the start; where it works, after the growth of the first batch
    host: int
    last: int  # KV on the device in the last of the batches; `device` where it does not work
    batches: tuple[int, int] | None = None  # the first and the last of the batches in which it works
    tokens: int = 0
    recomputed: int = 0
    call: int | None = None  # the call that it is in, from 1
    reused: int = 0
    saved: int = 0  # ticks, by reuse


def bars_of(trace: Trace) -> dict[str, list[Bar]]:
    """Return the bars of every request; those of one request tile [arrival, completion], as in `timeline`."""
    each = sum(span.length for request in trace.requests for span in request.spans) <= CELLS
    reuses: dict[str, dict[int, Saving]] = {request.request.id: {} for request in trace.requests}
    for saving in savings(trace):
        reuses[trace.requests[saving.position].request.id][saving.batch] = saving
    return {
        id: [bar for kind, periods in row for bar in _bars(kind, periods, trace.batches, each, reuses[id])]
        for id, row in activities(trace).items()
    }


def _bars(
    kind: Kind, periods: Sequence[Period], batches: Sequence[BatchTrace], each: bool, reuses: Mapping[int, Saving]
) -> Iterator[Bar]:
    at, steps = periods[0], [step for period in periods if period.work for step in period.work.steps()]
    if not steps:
        call = None if at.call is None else at.call.segment + 1
        yield Bar(at.start, periods[-1].end, kind, at.device, at.host, at.device, call=call)
    for some in [[step] for step in steps] if each else [steps] * bool(steps):
        first, last = some[0], some[-1]
        hits = [reuses[step.batch] for step in some if step.batch in reuses]
        yield Bar(
            batches[first.batch].start, batches[last.batch].end, kind, first.resident + first.tokens, at.host,
            last.resident + last.tokens, (first.batch, last.batch), sum(step.tokens for step in some),
            sum(step.recomputed for step in some), None, sum(s.tokens for s in hits), sum(s.ticks for s in hits),
        )  # fmt: skip


MOST_BARS = 4_000  # a schedule of more bars is not drawn


def chart(name: str, label: str, trace: Trace, bars: Mapping[str, Sequence[Bar]], frame: Frame) -> Element:
    """Return the picture of a schedule, with the meaning of every bar and step of memory.

    `name` makes ids unique, `label` is for readers, `frame` gives the axes.
    """
    figure = draw_schedule(trace, frame)
    about = f"{label}: {len(bars)} requests over time, above the KV memory. The arrow keys go from bar to bar."
    svg = inline(figure, name, {"class": "chart", "tabindex": "0", "role": "group", "aria-label": about})
    lanes, memory = (_Axes(ax, frame.scale(trace)) for ax in figure.axes)
    for k, (id, lane) in enumerate(bars.items()):
        said = {
            "class": "lane",
            "role": "group",
            "aria-label": f"{id}: {span_in_words(lane[0].start, lane[-1].end, frame.units)}",
        }
        svg.append(node("g", said, *(_bar(lanes, k, id, bar, trace, frame.units) for bar in lane)))
    svg.extend(_strips(memory, trace, frame.units))
    height = svg.attrib["viewBox"].split()[-1]
    svg.append(node("line", {"class": "cursor", "x1": 0, "x2": 0, "y1": 0, "y2": height, "visibility": "hidden"}))
    return svg


class _Axes:
    def __init__(self, ax: Axes, scale: float) -> None:
        self.fractions, self.scale = ax.transData - ax.figure.transSubfigure, scale
        self.width, self.height = 72 * ax.figure.figure.get_size_inches()
        self.bottom, self.top = ax.get_ylim()

    def rect(self, kind: str, span: tuple[int, int], low: float, high: float, tip: str) -> Element:
        ((left, bottom), (right, top)) = self.fractions.transform(
            [(tick * self.scale, y) for tick, y in zip(span, (low, high), strict=True)]
        )
        x, y = self.width * left, self.height * (1 - top)
        return node("rect", {"class": kind, "x": x, "y": y, "width": self.width * right - x,
                             "height": self.height * (1 - bottom) - y, "data-tip": tip})  # fmt: skip


def _bar(lanes: _Axes, k: int, id: str, bar: Bar, trace: Trace, units: Units) -> Element:
    half = max(LOOKS[bar.kind].height, 0.1) / 2
    tip = "\n".join((f"{id}: {LOOKS[bar.kind].text}", *bar_in_words(bar, trace, units)))
    return lanes.rect(bar.kind, bar[:2], k + half, k - half, tip)


def _strips(memory: _Axes, trace: Trace, units: Units) -> Iterator[Element]:
    curve, limit, host, held = trace.memory_curve(), trace.instance.machine.memory, dict(trace.host_curve()), 0
    if len(curve) > CELLS:
        return
    of, rows = "" if limit is None else f" of {limit:,}", residence(trace)
    for (start, tokens), (end, _) in pairwise([*curve, (makespan(trace), 0)]):
        held = host.get(start, held)
        if end > start:
            line = f"device {tokens:,}{of} {units.kv}, host {held:,}"
            tip = "\n".join(("memory", line, *_contents(rows, start), span_in_words(start, end, units)))
            yield memory.rect("strip", (start, end), memory.bottom, memory.top, tip)


def _contents(rows: Mapping[str, Sequence[Residence]], tick: int) -> Iterator[str]:
    there = [(id, some[bisect_right(some, tick, key=lambda row: row.start) - 1]) for id, some in rows.items()]
    found = [(id, row) for id, row in there if row.blocks]
    for id, row in found[:NAMED]:
        yield f"{id}: {row.blocks:,} block{'s' * (row.blocks > 1)}, {few([*row.holders]) or 'retained'}"
    if len(found) > NAMED:
        yield f"{len(found) - NAMED:,} more nodes"


def bar_in_words(bar: Bar, trace: Trace, units: Units) -> Iterator[str]:
    """Yield the meaning of a bar, a line each."""
    if bar.batches is not None:
        first, last = bar.batches
        recomputed = f", {bar.recomputed:,} of them processed before" if bar.recomputed else ""
        batches = f"batch {first:,}" if first == last else f"batches {first:,} to {last:,}"
        kv = units.kv.replace("s", "", 1) if bar.tokens == 1 else units.kv
        yield f"{batches}: {bar.tokens:,} {kv}{recomputed}"
    if bar.reused:
        yield f"reuses {bar.reused:,} more, which saves {units.spelled(bar.saved)}"
    if bar.call is not None:
        yield f"call {bar.call}"
    grows = f" to {bar.last:,}" if bar.last != bar.device else ""
    yield f"its KV: {bar.device:,}{grows} on the device, {bar.host:,} on the host"
    if bar.batches is not None:
        limit = trace.instance.machine.memory
        peak = max(batch.device for batch in trace.batches[first : last + 1])
        yield f"device memory: {peak:,}" + ("" if limit is None else f" of {limit:,}")
    yield span_in_words(bar.start, bar.end, units)


def span_in_words(start: int, end: int, units: Units) -> str:
    """Write a time from tick to tick."""
    return f"{units.text(start)} to {units.spelled(end)}"
