"""Which ways run for an instance, and why."""

from collections.abc import Sequence
from dataclasses import dataclass

from bounds.events import EventOptions
from bounds.task import most_options
from kvcore.errors import BadInput, unknown
from kvcore.instance import Instance
from solvers.messages import SolveOptions
from solvers.ways import (
    BOUND,
    CONFIGURATIONS,
    ENUMERATION,
    EVENTS,
    IMPROVE,
    SLOT_DUAL,
    SLOTS,
    SOLVERS,
    WAYS,
    Way,
)

WHY = {
    CONFIGURATIONS: "every request runs from start to end, so that its start says all",
    SLOTS: "batches last one tick, and few requests have few joint states; what it proves is certified",
    EVENTS: "few requests have few joint states at batch boundaries; what it proves is certified",
    ENUMERATION: "the enumeration of states takes shared contents and layouts of KV; what it proves is certified",
    SLOT_DUAL: "prices of slots prove what a search over them does not reach",
    BOUND: "no exact search takes it, but lower bounds scale",
}
"""The proving ways in the order of their turns, and why."""

TOGETHER = {
    "search": ((SLOTS, EVENTS), "the exact searches over slots and events"),
    "arc-flow": ((SLOTS, SLOT_DUAL), "prices of slots, and the search over slots, for the same paths of requests"),
}
"""Formulations that several ways stand for, those that take the instance."""


@dataclass(frozen=True)
class Choice:
    """The ways that run, and why. Lanes run side by side; the ways of a lane take turns.

    The first lane has a head start, in seconds. `named`: the user named a way, and hears if it declines.
    """

    lanes: tuple[tuple[Way, ...], ...]
    why: str
    named: bool = True
    head_start: float = 0.0


def choose(
    instance: Instance, objective: str, formulation: str, solver: str, ways: Sequence[str] = ("auto",)
) -> Choice:
    """Choose what runs; a named formulation, solver or way is taken as given."""
    wanted, why = _wanted(formulation, solver, list(ways))
    said: dict[Way, str | None] = {}
    many = len(instance.requests) > SolveOptions.given().few_joint
    for way in wanted:
        if why or not ((many and way is EVENTS) or (way is SLOT_DUAL and said[SLOTS])):  # the ladder has prices
            said[way] = way.declines(instance, objective)
    fitting = tuple(way for way, reason in said.items() if reason is None)
    reasons = [reason for reason in said.values() if reason is not None]
    if not why and not fitting:
        raise BadInput(f"no way takes {instance.name}: {min(reasons, key=len)}")
    if not why:
        return _race(fitting, instance, objective)
    if reasons and not (fitting and formulation in TOGETHER):
        raise BadInput(f"{formulation}: {'; '.join(reasons)}" if formulation in TOGETHER else reasons[0])
    lanes = [tuple(way for way in fitting if bool(way.proves) is proves) for proves in (True, False)]
    return Choice(tuple(lane for lane in lanes if lane), why)


def _wanted(formulation: str, solver: str, ways: list[str]) -> tuple[Sequence[Way], str]:
    if ways != ["auto"]:
        if (formulation, solver) != ("auto", "auto"):
            raise BadInput("name ways, or a formulation and a solver, not both")
        return _named(ways), "these ways were asked for"
    formulations = ["auto", *TOGETHER, *dict.fromkeys(of for of, _ in WAYS)]
    if formulation not in formulations:
        raise unknown("formulation", formulation, formulations)
    if solver not in ("auto", *SOLVERS):
        raise unknown("solver", solver, ["auto", *SOLVERS])
    if formulation == solver == "auto":
        return list(WHY), ""
    together, what = TOGETHER.get(formulation, ((), ""))
    if together and solver == "auto":
        return together, f"{formulation} was asked for: {what}"
    fitting = [way for way in WAYS.values() if formulation in ("auto", way.formulation)]
    if found := next((way for way in fitting if solver in ("auto", way.solver.name)), None):
        if formulation == "auto":
            return [found], f"{solver} was asked for, {found.formulation} is what it solves"
        return [found], f"{formulation} was asked for, {found.solver.name} solves it"
    others = [way.solver.name for way in fitting] or [way.formulation for way in together]
    raise BadInput(f"{solver} does not solve {formulation}; {' and '.join(others)} can")


def _named(names: Sequence[str]) -> list[Way]:
    labels: dict[str, Way] = {}
    for way in WAYS.values():
        labels.setdefault(way.formulation, way)
        labels.setdefault(way.label, way)
    for name in names:
        if name in TOGETHER:
            raise BadInput(f"{name} is several ways: name {' or '.join(way.label for way in TOGETHER[name][0])}")
        if name not in labels:
            raise unknown("way", name, ["auto", *labels])
    return list(dict.fromkeys(labels[name] for name in names))


def _race(provers: tuple[Way, ...], instance: Instance, objective: str) -> Choice:
    if provers[0] is EVENTS and most_options(instance) > EventOptions.given().most_options:
        others = (way for way in provers if way not in (BOUND, EVENTS))
        provers = (BOUND, *others, EVENTS)  # which only finds there
    why = WHY[provers[0]]
    if CONFIGURATIONS in provers:  # other searches see less there
        provers = (CONFIGURATIONS, BOUND)
    if IMPROVE.declines(instance, objective):
        return Choice((provers,), why, named=False)
    head_start = SolveOptions.given().head_start if len(provers) > 1 else 0.0
    turns = " and ".join(way.what for way in provers)
    after = f"after {head_start} s " if head_start else ""
    why = f"{why}; beside {turns}, in turns, {after}{IMPROVE.what} runs"
    return Choice((provers, (IMPROVE,)), why, named=False, head_start=head_start)
