"""What was proved of an optimum, and how: status, bound, argument, certificate, and every rung of the ladder."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from kvbound.report.markup import html_table, node
from kvbound.tables import Cells, in_words, value_columns
from kvbound.units import units_of
from kvcore.result import Result

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
    yield (
        "best schedule",
        ("none" if optimum.value is None else f"{in_words(optimum, optimum.value)}, verified by the referee"),
    )
    yield "lower bound", "none" if optimum.bound is None else in_words(optimum, optimum.bound)
    if "constraints" in optimum.extra:
        yield "only of schedules that obey", ", ".join(optimum.extra["constraints"])
    if optimum.bound_kind is not None:
        yield "the bound rests on", f"{KINDS[optimum.bound_kind]} ({optimum.proved_by})"
    if optimum.horizon is not None:
        yield "why it holds for all schedules", optimum.horizon.why + ("" if optimum.horizon.sufficient else " (open)")
    if optimum.certificate is not None:
        certificate = optimum.certificate
        yield (
            "certificate",
            f"{certificate.proof.kind}: at least {in_words(optimum, certificate.value)}; {certificate.why}",
        )
    if optimum.found_by is not None:
        yield "found by", optimum.found_by
    if optimum.solver is not None:
        yield "solved by", f"{optimum.formulation}, {optimum.solver.name} {optimum.solver.version}"
    yield "instance", optimum.instance.sha256


def _ladder(optimum: Result) -> Element | None:
    """Return the bounds by all methods; without the seconds, so that a report is the same each time."""
    rungs = optimum.extra.get("ladder")
    if not rungs:
        return None
    units, objective = units_of(optimum.instance), optimum.objective
    rows = [(rung["method"], units.value(rung["bound"], objective), rung["why"]) for rung in rungs]
    columns = ("method", *value_columns(units, objective, "bound"), "why")
    return html_table(Cells(columns, rows, (1,)), "Lower bounds by method")
