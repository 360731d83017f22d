"""The report: one HTML file with schedules, values, bounds and proofs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import kvcore
from kvbound import instance_text, tables
from kvbound.explanation import Explained
from kvbound.plots import ladder
from kvbound.plots.frame import DRAWABLE, FAR, Frame, far
from kvbound.plots.gantt import LOOKS
from kvbound.report import chart
from kvbound.report.chart import Bar, bars_of
from kvbound.report.markup import inline, page, written
from kvbound.tables import Cells, in_words
from kvbound.units import Units, units_of
from kvcore.account import memory_waste
from kvcore.instance import Instance
from kvcore.metrics import OBJECTIVES, makespan
from kvcore.result import Result
from kvcore.stream import sizes_of
from kvcore.trace import Trace

STATUS = {
    "optimal": "optimal: the referee executed the schedule, and a certificate shows that no schedule is better",
    "claimed": "claimed: the referee executed the schedule; that no schedule is better rests on a word",
    "feasible": "not proved optimal: the best schedule found, and a lower bound or none",
    "bound-only": "a lower bound; no schedule was looked for",
    "infeasible": "proved: there is no schedule",
    "unknown": "nothing is known",
}
KINDS = {
    "certificate": "a certificate that the checker recomputed, exactly and without a solver",
    "solver": "the word of the solver",
    "search": "the word of a search in exact integers",
}


SPELLED = 400  # a schedule of at most so many bars is also given as a table


def facts(optimum: Result) -> Iterator[tuple[str, str]]:
    """Yield what is known of an optimum, in words."""
    yield "status", STATUS[optimum.status]
    best = "none" if optimum.value is None else f"{in_words(optimum, optimum.value)}, verified by the referee"
    yield "best schedule", best
    yield "lower bound", "none" if optimum.bound is None else in_words(optimum, optimum.bound)
    if optimum.gap is not None:
        yield "gap", f"{100 * optimum.gap:.2f} %"
    if optimum.constraints:
        yield "only of schedules that obey", ", ".join(optimum.constraints)
    if optimum.bound_kind is not None:
        yield "the bound rests on", f"{KINDS[optimum.bound_kind]} ({optimum.proved_by})"
    if optimum.horizon is not None:
        yield "why it holds for all schedules", optimum.horizon.why + ("" if optimum.horizon.sufficient else " (open)")
    if optimum.certificate is not None:
        found, least = optimum.certificate, in_words(optimum, optimum.certificate.value)
        checked = ", machine-checked" if optimum.machine_checked else ""
        yield "certificate", f"{found.proof.kind}{checked}: at least {least}; {found.why}"
    if optimum.found_by is not None:
        yield "found by", optimum.found_by
    if optimum.solver is not None:
        yield "solved by", f"{optimum.formulation}, {optimum.solver.name} {optimum.solver.version}"
    yield "instance", optimum.instance.sha256


def rungs(optimum: Result) -> Cells | None:
    """Return the lower bounds by method (None: no ladder)."""
    if not optimum.ladder:
        return None
    units, objective = units_of(optimum.instance), optimum.objective
    found = [rung.row(objective) for rung in optimum.ladder]
    rows = [(rung["method"], units.value(rung["bound"], objective), rung["why"]) for rung in found]
    return Cells(("method", *tables.value_columns(units, objective, "bound"), "why"), rows, (1,))


@dataclass(frozen=True)
class Report:
    """Results, schedules by label, and what was proved.

    `rows` are as in `kvbound compare --json`, `ladder` as in `kvbound.plots.ladder`, `verdicts` sentences, and `optima`
    the results that the rows are measured against, by their handling in words.
    """

    instance: Instance
    rows: Sequence[Mapping[str, Any]]
    schedules: Sequence[tuple[str, Trace]]
    summary: Cells
    verdicts: Sequence[str]
    optima: Mapping[str, Result]
    ladder: Sequence[Mapping[str, Any]]
    explained: Sequence[Explained] = ()

    def __repr__(self) -> str:
        return f"Report({self.instance.name!r}: {len(self.rows)} schedules; html() writes it)"

    @cached_property
    def units(self) -> Units:
        """The units of all of it."""
        return units_of(self.instance)

    def html(self) -> str:
        """Return the file: the same bytes for the same results."""
        title = f"{self.instance.name}, {self.rows[0]['objective']}"
        drawn = self.ladder and ladder(self.ladder, units=self.units).figure.figure
        about = {"class": "ladder", "role": "img", "aria-label": "values and bounds"}
        return page(
            report=self, title=title, rungs=drawn and written(inline(drawn, "ladder", about)), tables=tables,
            about=instance_text, sizes=sizes_of(self.instance), facts=facts, ladder=rungs,
            drawable=DRAWABLE,
        )  # fmt: skip

    @property
    def drawn(self) -> bool:
        """Whether the schedules are drawn."""
        return bool(self.schedules) and len(self.instance.requests) <= DRAWABLE

    def charts(self) -> Iterator[tuple[str, str, str, Cells | None]]:
        """Yield each schedule's label, why it is not drawn (empty: it is), its picture, and the same as a table."""
        if not self.drawn:
            return
        drawn = [(label, trace, bars_of(trace)) for label, trace in self.schedules]
        beyond = far([makespan(trace) for _, trace, _ in drawn])
        frame = Frame.of([trace for (_, trace, _), out in zip(drawn, beyond, strict=True) if not out])
        for k, ((label, trace, lanes), out) in enumerate(zip(drawn, beyond, strict=True)):
            bars = sum(map(len, lanes.values()))
            if out:
                long = f"Not drawn: it takes {frame.units.spelled(makespan(trace))}, more than {FAR} times the median."
                yield label, long, "", None
            elif bars > chart.MOST_BARS:
                yield label, f"Not drawn: {bars:,} bars, and up to {chart.MOST_BARS:,} are.", "", None
            else:
                spelled = _spelled(trace, lanes, frame.units) if bars <= SPELLED else None
                yield label, "", written(chart.chart(f"chart-{k}", label, trace, lanes, frame)), spelled

    def measures(self) -> Iterator[tuple[Cells, str]]:
        """Yield tables of all that is measured, with their captions."""
        measured, units = [(row["label"], row["measures"]) for row in self.rows if row.get("measures")], self.units
        values = [
            [label, *(units.value(made(trace), name) for name, made in OBJECTIVES.items())]
            for label, trace in self.schedules
        ]
        columns = ["objective", *(f"{name}, {units.of(name)}" for name in OBJECTIVES)]
        yield Cells(columns, values, range(1, len(columns))), "All objectives"
        waste = [*tables.CAUSES, *["retained"] * bool(self.instance.contents)]
        lost = [(label, memory_waste(trace).parts()) for label, trace in self.schedules]
        cells = [[label, *(units.text(parts[cause]) for cause in waste)] for label, parts in lost]
        caption = f"Memory waste by cause, in {units.kv} x {units.time}"
        yield Cells(["waste", *waste], cells, range(1, len(waste) + 1)), caption
        yield tables.times_cells(measured, units), "Times"
        yield tables.work_cells(measured, units), "Work and moves"

    def versions(self) -> str:
        """Say what made it."""
        found = [row["solver"] for row in self.rows if row.get("solver")]
        solvers = sorted({f"{solver['name']} {solver['version']}" for solver in found})
        return "Made by " + ", ".join((f"kvbound {kvcore.__version__}", *solvers)) + "."


def _spelled(trace: Trace, lanes: Mapping[str, Sequence[Bar]], units: Units) -> Cells:
    rows = [
        (
            id, LOOKS[bar.kind].text, units.text(bar.start), units.text(bar.end),
            "; ".join([*chart.bar_in_words(bar, trace, units)][:-1]),
        )
        for id, lane in lanes.items()
        for bar in lane
    ]  # fmt: skip
    columns = ("request", "what it does", f"from, {units.time}", f"to, {units.time}", "in detail")
    return Cells(columns, rows, (2, 3))
