"""A schedule as SVG: one lane of bars for each request above the memory, all schedules of a page on the same axes.

Every bar carries what it stands for in the attribute `data-tip`, which `report.js` shows below the pointer.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import floor, log10
from typing import NamedTuple
from xml.etree.ElementTree import Element

from kvbound.plots import style
from kvbound.plots.frame import Frame
from kvbound.plots.gantt import LOOKS, IntervalStyle
from kvbound.report.markup import node
from kvbound.timeline import Interval, Kind, timeline
from kvbound.units import Units
from kvcore.trace import BatchTrace, RequestTrace, Trace

CELLS = 1_500
"""Up to this many batch steps of all requests, each is a bar; beyond, those that follow without a break are one."""

WORK = ("prefill", "decode", "recompute")


class Bar(NamedTuple):
    """A request does one thing from tick `start` to tick `end`; KV is in tokens of this request."""

    start: int
    end: int
    kind: Kind
    device: int
    """KV on the device at the start; where it works, after the growth of the first batch."""
    host: int
    last: int
    """KV on the device in the last of the batches; `device` where it does not work."""
    batches: tuple[int, int] | None = None
    """The first and the last of the batches in which it works."""
    tokens: int = 0
    recomputed: int = 0
    call: int | None = None
    """The call that it is in, from 1."""


def bars_of(trace: Trace) -> dict[str, list[Bar]]:
    """Return the bars of every request; those of one request tile [arrival, completion] as `timeline` does."""
    each = sum(span.length for request in trace.requests for span in request.spans) <= CELLS
    rows = timeline(trace)
    return {
        request.request.id: list(_bars(request, trace.batches, rows[request.request.id], each))
        for request in trace.requests
    }


def _bars(
    request: RequestTrace, batches: Sequence[BatchTrace], intervals: Sequence[Interval], each: bool
) -> Iterator[Bar]:
    """Yield the bars of a request, with `each` one for every batch in which it works."""
    steps, levels = request.steps, list(request.levels())
    starts = [batches[step.batch].start for step in steps]
    ticks = [batches[level.event.batch].start for level in levels]
    calls = [call.start for call in request.calls]
    for start, end, kind in intervals:
        k = bisect_right(ticks, start)
        device, host = levels[k - 1][1:] if k else (0, 0)
        if kind not in WORK:
            call = bisect_right(calls, start) if kind.startswith("call") else None
            yield Bar(start, end, kind, device, host, device, call=call)
            continue
        worked = steps[bisect_left(starts, start) : bisect_left(starts, end)]
        for some in ([step] for step in worked) if each else (worked,):
            first, last = some[0], some[-1]
            began = batches[first.batch].start
            yield Bar(
                began, batches[last.batch].end, kind, first.resident + first.tokens,
                levels[bisect_right(ticks, began) - 1][2], last.resident + last.tokens, (first.batch, last.batch),
                sum(step.tokens for step in some), sum(step.recomputed for step in some),
            )  # fmt: skip


LEFT, WIDTH, RIGHT = 130, 880, 90
"""Units of the picture for the names, the time axis, and the completions."""
ROW, GAP, AXIS = 20, 18, 34
LEAST_MEMORY, MOST_MEMORY = 90, 240
"""Units for the curve of memory: a third of the lanes, within these."""
MOST_BARS = 4_000
"""A schedule of more bars is not drawn."""
HATCHES = {"//////": "M-1,5 L5,-1 M0,8 L8,0 M3,9 L9,3", "\\\\\\\\\\\\": "M-1,3 L5,9 M0,0 L8,8 M3,-1 L9,5",
           "xxxxxx": "M0,0 L8,8 M8,0 L0,8"}  # fmt: skip
"""The lines of a hatch in a square of eight units."""


def chart(name: str, trace: Trace, bars: Mapping[str, Sequence[Bar]], frame: Frame) -> Element:
    """Return the picture of a schedule: lanes, memory, axis; `frame` says what the axes show."""
    sheet = _Sheet(trace, frame)
    box = f"0 0 {LEFT + WIDTH + RIGHT} {sheet.height}"
    label = f"{name}: {len(bars)} requests over time, above the KV memory. The arrow keys go from bar to bar."
    return node(
        "svg", {"viewBox": box, "class": "chart", "tabindex": 0, "role": "group", "aria-label": label},
        *sheet.grid(),
        *(sheet.lane(y, id, lane) for y, (id, lane) in enumerate(bars.items())),
        *sheet.memory(),
        node("line", {"class": "cursor", "x1": 0, "x2": 0, "y1": 0, "y2": sheet.bottom, "visibility": "hidden"}),
    )  # fmt: skip


class _Sheet:
    """Where everything stands, in units of the picture."""

    def __init__(self, trace: Trace, frame: Frame) -> None:
        self.trace, self.frame = trace, frame
        self.lanes = ROW * len(trace.requests)
        self.curve = min(max(self.lanes / 3, LEAST_MEMORY), MOST_MEMORY)
        self.bottom = self.lanes + GAP + self.curve
        self.height = self.bottom + AXIS

    def x(self, tick: int) -> float:
        return LEFT + WIDTH * tick * self.frame.scale(self.trace) / self.frame.end

    def y(self, tokens: float) -> float:
        return self.bottom - self.curve * min(tokens / self.frame.top, 1)

    def grid(self) -> Iterator[Element]:
        """Yield the time axis: a line and a number every few units."""
        for time in steps(self.frame.end, min(10, self.frame.end) if self.frame.units.time == "ticks" else 10):
            x = LEFT + WIDTH * time / self.frame.end
            yield node("line", {"class": "grid", "x1": x, "x2": x, "y1": 0, "y2": self.bottom})
            yield _words(x, self.bottom + 13, style.number(time), "middle")
        yield _words(LEFT + WIDTH / 2, self.bottom + 28, f"time ({self.frame.units.time})", "middle")

    def lane(self, k: int, id: str, bars: Sequence[Bar]) -> Element:
        """Return the lane of a request: its name, its bars, its completion."""
        middle, done = ROW * (k + 0.5), bars[-1].end
        label = f"{id}: {span_in_words(bars[0].start, done, self.frame.units)}"
        return node(
            "g", {"class": "lane", "role": "group", "aria-label": label},
            _words(LEFT - 6, middle + 4, style.short(id, 20), "end"),
            *(self.bar(middle, id, bar) for bar in bars),
            _words(self.x(done) + 4, middle + 4, self.frame.text(done * self.frame.scale(self.trace)), "start"),
        )  # fmt: skip

    def bar(self, middle: float, id: str, bar: Bar) -> Element:
        """Return a bar, as high as its kind is."""
        height = max(ROW * LOOKS[bar.kind].height, 1.5)
        place = {"x": self.x(bar.start), "width": self.x(bar.end) - self.x(bar.start)}
        tip = "\n".join((f"{id}: {LOOKS[bar.kind].text}", *bar_in_words(bar, self.trace, self.frame.units)))
        return node("rect", {"class": bar.kind, **place, "y": middle - height / 2, "height": height, "data-tip": tip})

    def memory(self) -> Iterator[Element]:
        """Yield the curves of device and host memory, the limit, and what is shown of each batch."""
        device = self.trace.memory_curve()
        yield node("path", {"class": "device", "d": self._steps(device, close=True)})
        host = self.trace.host_curve()
        if any(tokens for _, tokens in host):
            yield node("path", {"class": "host", "d": self._steps(host, close=False)})
        yield from self._limit(self.trace.instance.machine.memory)
        for k, line in enumerate(f"KV ({self.frame.units.kv})".replace(" of ", "\nof ").split("\n")):
            yield _words(LEFT - 6, self.bottom - self.curve / 2 + 14 * k, line, "end")
        if len(device) <= CELLS:
            yield from self._strips(device)

    def _steps(self, curve: Sequence[tuple[int, int]], close: bool) -> str:
        """Return a step curve; where many steps share a unit of the picture, their highest."""
        levels: dict[int, tuple[float, float]] = {}
        for k, (tick, tokens) in enumerate(curve):
            x, key = self.x(tick), k if len(curve) <= CELLS else int(self.x(tick))
            levels[key] = (levels.get(key, (x, 0.0))[0], min(levels.get(key, (x, self.y(0)))[1], self.y(tokens)))
        path = "".join(f"H{x:.2f}V{y:.2f}" for x, y in levels.values())
        end = f"H{self.x(max(request.completion for request in self.trace.requests)):.2f}"
        return f"M{LEFT},{self.bottom}{path}{end}" + (f"V{self.bottom}Z" if close else "")

    def _limit(self, limit: int | None) -> Iterator[Element]:
        if limit is None:
            return
        above, y = limit > self.frame.top, self.y(limit)
        if not above:
            yield node("line", {"class": "limit", "x1": LEFT, "x2": LEFT + WIDTH, "y1": y, "y2": y})
        yield _words(LEFT + WIDTH, y - 4, "↑ " * above + f"memory {limit:,}", "end")

    def _strips(self, curve: Sequence[tuple[int, int]]) -> Iterator[Element]:
        """Yield an invisible strip for each step of the curve, with its numbers."""
        limit = self.trace.instance.machine.memory
        ends = [*(tick for tick, _ in curve[1:]), max(request.completion for request in self.trace.requests)]
        host = dict(self.trace.host_curve())
        held = 0
        for (start, tokens), end in zip(curve, ends, strict=True):
            held = host.get(start, held)
            if end > start:
                of = "" if limit is None else f" of {limit:,}"
                units = self.frame.units
                tip = f"memory\ndevice {tokens:,}{of} {units.kv}, host {held:,}\n{span_in_words(start, end, units)}"
                yield node("rect", {"class": "strip", "x": self.x(start), "width": self.x(end) - self.x(start),
                                    "y": self.bottom - self.curve, "height": self.curve, "data-tip": tip})  # fmt: skip


def bar_in_words(bar: Bar, trace: Trace, units: Units) -> Iterator[str]:
    """Yield what a bar stands for, a line each."""
    if bar.batches is not None:
        first, last = bar.batches
        recomputed = f", {bar.recomputed:,} of them processed before" if bar.recomputed else ""
        yield f"{_batches(first, last)}: {_tokens(bar.tokens, units)}{recomputed}"
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


def _batches(first: int, last: int) -> str:
    return f"batch {first:,}" if first == last else f"batches {first:,} to {last:,}"


def _tokens(tokens: int, units: Units) -> str:
    return f"1 {units.kv.replace('s', '', 1)}" if tokens == 1 else f"{tokens:,} {units.kv}"


def _words(x: float, y: float, text: str, anchor: str) -> Element:
    return node("text", {"x": x, "y": y, "text-anchor": anchor}, text)


def steps(end: float, most: float) -> list[float]:
    """Return round numbers from 0 to `end`: 1, 2 or 5 times a power of ten apart, `most` such steps at the most."""
    power = 10.0 ** floor(log10(end / most))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power * most >= end)
    return [float(f"{k * step:.10g}") for k in range(int(end / step * (1 + 1e-12)) + 1)]


def patterns() -> Element:
    """Return the hatches of all kinds of bars, which the styles of `looks` name."""
    made = []
    for kind, look in LOOKS.items():
        if look.hatch:
            lines = node("path", {"d": HATCHES[look.hatch], "stroke": look.edge, "stroke-width": 1.2, "fill": "none"})
            ground = node("rect", {"width": 8, "height": 8, "fill": _fill(look.fill)})
            square = {"id": f"hatch-{kind}", "width": 8, "height": 8, "patternUnits": "userSpaceOnUse"}
            made.append(node("pattern", square, ground, lines))
    return node("svg", {"class": "patterns", "width": 0, "height": 0, "aria-hidden": "true"}, node("defs", None, *made))


def looks() -> str:
    """Return the styles of all kinds of bars: the colours and hatches of `kvbound.plots`."""
    lines = []
    for kind, look in LOOKS.items():
        fill = f"url(#hatch-{kind})" if look.hatch else _fill(look.fill)
        edge = "var(--page)" if kind in WORK or kind == "transfer" else look.edge
        lines.append(f".{kind} {{ fill: {fill}; stroke: {edge}; }}")
    return "\n".join(lines)


def _fill(colour: str) -> str:
    """Return a colour that can be seen on the page, be it light or dark."""
    return {style.WHITE: "var(--page)", style.BLACK: "var(--ink)"}.get(colour, colour)


def legend(kinds: Iterable[Kind]) -> Element:
    """Return the legend of the kinds of bars that are there."""
    there = set(kinds)
    return node("p", {"class": "legend"}, *(_entry(kind, look) for kind, look in LOOKS.items() if kind in there))


def _entry(kind: Kind, look: IntervalStyle) -> Element:
    height = max(12 * look.height, 1.5)
    bar = node("rect", {"class": kind, "x": 1, "width": 22, "y": 7 - height / 2, "height": height})
    return node("span", None, node("svg", {"width": 24, "height": 14, "aria-hidden": "true"}, bar), look.text)
