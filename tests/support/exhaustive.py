"""The optimum of tiny instances by exhaustive search, its schedule passed by the referee."""

from __future__ import annotations

from kvcore.certificates.batches import TooManyStates
from kvcore.certificates.search import ExhaustiveSearch
from kvcore.instance import Instance
from kvcore.metrics import Value, objective_value
from kvcore.referee import verify_schedule
from kvcore.schedule import Schedule

__all__ = ["TooManyStates", "exhaustive_optimum"]


def exhaustive_optimum(
    instance: Instance, objective: str, *, max_states: int = 2_000_000, every_tick: bool = False, guided: bool = False
) -> tuple[Value, Schedule]:
    """Return the optimal value (an int; a Fraction for normalized-latency) and a schedule that attains it.

    `every_tick` also tries the start times that the argument in `ExhaustiveSearch` leaves out; `guided` as there.
    Raises TooManyStates.
    """
    search = ExhaustiveSearch(instance, objective, every_tick=every_tick, guided=guided)
    label, goal = search.run(max_states)
    value, schedule = search.value(label), search.schedule(goal)
    assert objective_value(verify_schedule(instance, schedule), objective) == value
    return value, schedule
