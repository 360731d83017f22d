"""Which formulation and solver run for an instance, and why."""

from collections.abc import Sequence
from dataclasses import dataclass

from kvcore.errors import BadInput, unknown
from kvcore.instance import Instance
from solvers.messages import SolveOptions
from solvers.ways import (
    BOUND,
    CONFIGURATIONS,
    EVENTS,
    IMPROVE,
    PRICES,
    SLOTS,
    SOLVERS,
    WAYS,
    Way,
)

WHY = {
    CONFIGURATIONS: "every request runs from start to end, so that its start says all",
    SLOTS: "batches last one tick, and few requests have few joint states; what it proves is certified",
    EVENTS: "few requests have few joint states at batch boundaries; what it proves is certified",
    PRICES: "prices of slots prove what a search over them does not reach",
    BOUND: "no exact search takes it, but lower bounds scale",
}
"""What proves, in the order in which it has its turns where it applies, and why."""


@dataclass(frozen=True)
class Choice:
    """What will run, and why in words. Lanes run side by side, and in each its ways take turns.

    The first lane has a head start, in seconds. `named`: the user named a way, and hears if it declines.
    """

    lanes: tuple[tuple[Way, ...], ...]
    why: str
    named: bool = True
    head_start: float = 0.0


def choose(
    instance: Instance, objective: str, formulation: str, solver: str, ways: Sequence[str] = ("auto",)
) -> Choice:
    """Choose what runs; a formulation, a solver or ways that are named are taken at their word."""
    if list(ways) != ["auto"]:
        if (formulation, solver) != ("auto", "auto"):
            raise BadInput("name ways, or a formulation and a solver, not both")
        return _named(instance, objective, ways)
    formulations = list(dict.fromkeys(of for of, _ in WAYS))
    if formulation not in ("auto", "search", *formulations):
        raise unknown("formulation", formulation, ["auto", *formulations])
    if solver not in ("auto", *SOLVERS):
        raise unknown("solver", solver, ["auto", *SOLVERS])
    if formulation == solver == "auto":
        return _race(instance, objective)
    if (formulation, solver) == ("search", "auto"):
        exact = [way for way in (SLOTS, EVENTS) if way.declines(instance, objective) is None]
        if not exact:
            raise BadInput(f"search: {SLOTS.declines(instance, objective)}; {EVENTS.declines(instance, objective)}")
        return Choice((tuple(exact),), "search was asked for: the exact searches over slots and events")
    fitting = [way for way in WAYS.values() if formulation in ("auto", way.formulation)]
    if found := next((way for way in fitting if solver in ("auto", way.solver.name)), None):
        if reason := found.declines(instance, objective):
            raise BadInput(reason)
        if formulation == "auto":
            return Choice(((found,),), f"{solver} was asked for, {found.formulation} is what it solves")
        return Choice(((found,),), f"{formulation} was asked for, {found.solver.name} solves it")
    others = " and ".join(way.solver.name for way in fitting or (SLOTS, EVENTS))
    raise BadInput(f"{solver} does not solve {formulation}; {others} can")


def _named(instance: Instance, objective: str, names: Sequence[str]) -> Choice:
    """Choose these ways: those that prove take turns, beside those that only find."""
    labels: dict[str, Way] = {}
    for way in WAYS.values():
        labels.setdefault(way.formulation, way)
        labels.setdefault(way.label, way)
    for name in names:
        if name not in labels:
            raise unknown("way", name, ["auto", *labels])
    chosen = list(dict.fromkeys(labels[name] for name in names))
    if reasons := [reason for way in chosen if (reason := way.declines(instance, objective))]:
        raise BadInput(reasons[0])
    lanes = [tuple(way for way in chosen if bool(way.proves) is proves) for proves in (True, False)]
    return Choice(tuple(lane for lane in lanes if lane), "these ways were asked for")


def _race(instance: Instance, objective: str) -> Choice:
    """Choose all that may prove something, in turns, and beside it what finds schedules: at once if none is exact."""
    options = SolveOptions.given()
    left_out = {EVENTS} if len(instance.requests) > options.few_joint else set[Way]()
    if SLOTS.declines(instance, objective):
        left_out.add(PRICES)  # the ladder has them
    provers = [way for way in WHY if way not in left_out and way.declines(instance, objective) is None]
    why = WHY[provers[0]]
    if CONFIGURATIONS in provers:  # other searches see less there
        provers = [CONFIGURATIONS, BOUND]
    head_start = options.head_start if len(provers) > 1 else 0.0
    turns = " and ".join(way.what for way in provers)
    after = f"after {head_start} s " if head_start else ""
    why = f"{why}; beside {turns}, in turns, {after}{IMPROVE.what} runs"
    return Choice((tuple(provers), (IMPROVE,)), why, named=False, head_start=head_start)
