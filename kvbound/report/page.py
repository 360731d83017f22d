"""The report: one HTML file with schedules, values, bounds and proofs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from xml.etree.ElementTree import Element

import kvcore
from kvbound import tables
from kvbound.explanation import Explained
from kvbound.instance_text import facts_in_words, node_cells, request_cells
from kvbound.plots import ladder
from kvbound.plots.frame import DRAWABLE, FAR, Frame, far
from kvbound.plots.gantt import LOOKS
from kvbound.report import chart
from kvbound.report.chart import Bar, bars_of
from kvbound.report.markup import asset, html_table, inline, node, page
from kvbound.tables import Cells, causes, differences, in_words
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


def proof(handling: str, optimum: Result) -> Element:
    """Return what is known of the optimum with that handling of calls."""
    facts: list[Element] = []
    for term, text in _facts(optimum):
        facts += [node("dt", None, term), node("dd", None, text)]
    return node("section", None, node("h3", None, handling), node("dl", None, *facts), _ladder(optimum))


def _facts(optimum: Result) -> Iterator[tuple[str, str]]:
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


def _ladder(optimum: Result) -> Element | None:
    if not optimum.ladder:
        return None
    units, objective = units_of(optimum.instance), optimum.objective
    rungs = [rung.row(objective) for rung in optimum.ladder]
    rows = [(rung["method"], units.value(rung["bound"], objective), rung["why"]) for rung in rungs]
    columns = ("method", *tables.value_columns(units, objective, "bound"), "why")
    return html_table(Cells(columns, rows, (1,)), "Lower bounds by method")


LISTED = 200  # the most requests in the table of the instance
SPELLED = 400  # a schedule of at most so many bars is also given as a table


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
        return page(f"kvbound: {title}", self._main(title), asset("report.css"), asset("report.js"))

    def _main(self, title: str) -> Iterator[Element]:
        yield node("h1", None, title)
        for verdict in self.verdicts:
            yield node("p", {"class": "verdict"}, verdict)
        yield html_table(self.summary, "Values")
        if self.optima:
            yield node("p", {"class": "small"}, tables.OVER)
        yield _section("Schedules", *self._schedules())
        if self.ladder:
            drawn = ladder(self.ladder, units=self.units).figure.figure
            about = {"class": "ladder", "role": "img", "aria-label": "values and bounds"}
            yield _section("Values and bounds", node("div", {"class": "wide"}, inline(drawn, "ladder", about)))
        if self.explained:
            yield _section("Where the time goes", *self._explained())
        yield _section("What was proved, and how", *(proof(words, optimum) for words, optimum in self.optima.items()))
        yield _section("Measures", *self._measures())
        yield _section("The instance", *self._instance())
        yield node("p", {"class": "small"}, self._versions())
        yield node("div", {"id": "tip", "role": "status", "hidden": "hidden"})

    def _schedules(self) -> Iterator[Element]:
        requests = len(self.instance.requests)
        if not self.schedules or requests > DRAWABLE:
            many = f"up to {DRAWABLE} requests are drawn, and here are {requests:,}"
            yield node("p", None, f"Not drawn: {many if self.schedules else 'there is no schedule'}.")
            return
        drawn = [(label, trace, bars_of(trace)) for label, trace in self.schedules]
        yield node("p", {"class": "small"}, NOTE)
        beyond = far([makespan(trace) for _, trace, _ in drawn])
        frame = Frame.of([trace for (_, trace, _), out in zip(drawn, beyond, strict=True) if not out])
        for k, ((label, trace, lanes), out) in enumerate(zip(drawn, beyond, strict=True)):
            long = f"Not drawn: it takes {frame.units.spelled(makespan(trace))}, more than {FAR} times the median."
            yield _noted(label, long) if out else _figure(f"chart-{k}", label, trace, lanes, frame)

    def _explained(self) -> Iterator[Element]:
        yield node("p", {"class": "small"}, EXPLAINED)
        for cells in tables.explained_cells(self.explained, self.units):
            yield html_table(cells)
        for line in [*differences(self.explained, self.units), *causes(self.explained, self.units)]:
            yield node("p", {"class": "small"}, line)

    def _measures(self) -> Iterator[Element]:
        measured, units = [(row["label"], row["measures"]) for row in self.rows if row.get("measures")], self.units
        values = [
            [label, *(units.value(made(trace), name) for name, made in OBJECTIVES.items())]
            for label, trace in self.schedules
        ]
        columns = ["objective", *(f"{name}, {units.of(name)}" for name in OBJECTIVES)]
        yield html_table(Cells(columns, values, range(1, len(columns))), "All objectives")
        waste = [*tables.CAUSES, *["retained"] * bool(self.instance.contents)]
        lost = [(label, memory_waste(trace).parts()) for label, trace in self.schedules]
        cells = [[label, *(units.text(parts[cause]) for cause in waste)] for label, parts in lost]
        caption = f"Memory waste by cause, in {units.kv} x {units.time}"
        yield html_table(Cells(["waste", *waste], cells, range(1, len(waste) + 1)), caption)
        yield html_table(tables.times_cells(measured, units), "Times")
        yield html_table(tables.work_cells(measured, units), "Work and moves")

    def _instance(self) -> Iterator[Element]:
        instance = self.instance
        for line in facts_in_words(instance, sizes_of(instance)):
            yield node("p", None, line)
        yield html_table(*request_cells(instance, LISTED))
        if instance.contents:
            yield html_table(*node_cells(instance, LISTED))
        yield node("p", {"class": "small"}, f"sha256 of the instance: {instance.sha256}")

    def _versions(self) -> str:
        found = [row["solver"] for row in self.rows if row.get("solver")]
        solvers = sorted({f"{solver['name']} {solver['version']}" for solver in found})
        return "Made by " + ", ".join((f"kvbound {kvcore.__version__}", *solvers)) + "."


EXPLAINED = "The parts are exact and add up; kvbound compare --explain prints them."
NOTE = (
    "All schedules share the time axis. Point at a bar, or go to a chart and use the arrow keys, for its batches "
    "(counted from 0), tokens and KV. A tall bar is work, a half-high one a call, a low one a request that "
    "is ready and waits."
)


def _figure(name: str, label: str, trace: Trace, lanes: Mapping[str, Sequence[Bar]], frame: Frame) -> Element:
    bars = sum(map(len, lanes.values()))
    if bars > chart.MOST_BARS:
        return _noted(label, f"Not drawn: {bars:,} bars, and up to {chart.MOST_BARS:,} are.")
    drawn = node("div", {"class": "wide"}, chart.chart(name, label, trace, lanes, frame))
    spelled = _spelled(trace, lanes, frame.units) if bars <= SPELLED else None
    return node("figure", None, node("figcaption", None, label), drawn, spelled)


def _noted(label: str, note: str) -> Element:
    return node("figure", None, node("figcaption", None, label), node("p", None, note))


def _spelled(trace: Trace, lanes: Mapping[str, Sequence[Bar]], units: Units) -> Element:
    rows = [
        (
            id, LOOKS[bar.kind].text, units.text(bar.start), units.text(bar.end),
            "; ".join([*chart.bar_in_words(bar, trace, units)][:-1]),
        )
        for id, lane in lanes.items()
        for bar in lane
    ]  # fmt: skip
    columns = ("request", "what it does", f"from, {units.time}", f"to, {units.time}", "in detail")
    return node("details", None, node("summary", None, "the same as a table"), html_table(Cells(columns, rows, (2, 3))))


def _section(heading: str, *children: Element) -> Element:
    return node("section", None, node("h2", None, heading), *children)
