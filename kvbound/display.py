"""Things as notebooks show them, a table and schedules; the same picture from Python."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from functools import singledispatch
from typing import Any

from markupsafe import Markup

from heuristics import get_policy, trace_policy
from hypotheses.verdict import Verdict
from kvbound.comparison import Comparison, ladder_of, verdict
from kvbound.instance_text import facts_in_words, request_cells
from kvbound.plots import compare_schedules, ladder, render
from kvbound.plots.frame import check_drawable
from kvbound.plots.style import Figure
from kvbound.report.markup import PARTS
from kvbound.report.page import facts, rungs
from kvbound.tables import Cells
from kvcore.errors import BadInput
from kvcore.instance import Instance, Machine
from kvcore.result import Result
from kvcore.stream import sizes_of
from kvcore.trace import Trace


@singledispatch
def plot(thing: object) -> Figure:
    """Draw an Instance, a Trace, a Result, a Comparison or a Verdict; return the Figure, which `kv.save` writes.

    Schedules (of a verdict, those that refute) become Gantt charts, a result without one its ladder, an instance its
    run on a machine without limits. BadInput for anything else, and for more than 200 requests.
    """
    raise BadInput(f"an Instance, Trace, Result, Comparison or Verdict is drawn, not a {type(thing).__name__}")


@plot.register(Trace)
def _(thing: Trace) -> Figure:
    return _schedules([(thing.instance.name, thing)])


@plot.register(Instance)
def _(thing: Instance) -> Figure:
    check_drawable(thing)
    unlimited = thing.replace(machine=Machine(memory=None, host_memory=None))
    return _schedules([(f"{thing.name}  without limits", trace_policy(unlimited, get_policy("fcfs")))])


@plot.register(Result)
def _(thing: Result) -> Figure:
    if thing.trace is not None:
        return _schedules([(f"{thing.policy or thing.standing}  {thing.objective} {thing.value}", thing.trace)])
    if thing.bound is None:
        raise BadInput(f"there is no schedule and no bound to draw: {thing.status}, {thing.stopped}")
    figure: Figure = ladder(ladder_of(thing)).figure.figure
    return figure


@plot.register(Comparison)
def _(thing: Comparison) -> Figure:
    return thing.figure()


@plot.register(Verdict)
def _(thing: Verdict) -> Figure:
    if thing.fails is None:
        raise BadInput(f"{thing.name}: nothing failed, so there is no schedule to draw")
    return _schedules([(f"{held.label}  {held.objective} {held.value}", held.trace) for held in thing.fails.evidence])


def _schedules(columns: Sequence[tuple[str, Trace]]) -> Figure:
    for _, trace in columns:
        check_drawable(trace.instance)
    return compare_schedules(columns)


def html(thing: Any) -> str:
    """Return a table of an Instance, a Result, a Comparison or a Verdict, above its picture, if any."""
    try:
        picture = render(plot(thing))
    except BadInput:
        shown = Markup("")
    else:
        source = f"data:image/svg+xml;base64,{base64.b64encode(picture).decode()}"
        shown = IMAGE.format(source, repr(thing))
    return Markup("<div>{}{}</div>").format(Markup("").join(_tables(thing)), shown)


IMAGE = Markup('<img src="{}" alt="{}" style="max-width: 100%; background: white">')
LINE = Markup("<p>{}</p>\n")


@singledispatch
def _tables(thing: Any) -> Iterator[Markup]:
    raise NotImplementedError


@_tables.register(Instance)
def _(thing: Instance) -> Iterator[Markup]:
    yield Markup("<h3>{}</h3>\n").format(thing.name)
    for line in facts_in_words(thing, sizes_of(thing)):
        yield LINE.format(line)
    yield PARTS.table(*request_cells(thing, SHOWN))


@_tables.register(Result)
def _(thing: Result) -> Iterator[Markup]:
    yield PARTS.proof(f"{thing.instance.name}, {thing.objective}", facts(thing), rungs(thing))


@_tables.register(Comparison)
def _(thing: Comparison) -> Iterator[Markup]:
    yield PARTS.table(thing.summary(thing.rows()), f"{thing.instance.name}, {thing.objective}")
    for kind, optimum in thing.optima.items():
        yield LINE.format(verdict(kind, optimum))


@_tables.register(Verdict)
def _(thing: Verdict) -> Iterator[Markup]:
    row = thing.row()
    said = ("verdict", "statement", "source", "family", "held", "undecided", "why")
    cells = [(name, row[name]) for name in said] + [("counterexample", each) for each in row["counterexample"] or ()]
    yield PARTS.table(Cells((thing.name, ""), cells))


SHOWN = 10  # the most requests in the table of an instance
