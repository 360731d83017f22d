"""The optimum of tiny instances by exhaustive search, its schedule passed by the referee."""

from __future__ import annotations

from kvbound.certificates.batches import TooManyStates
from kvbound.certificates.search import Search
from kvbound.instance import Instance
from kvbound.metrics import Value, objective_value
from kvbound.schedule import Schedule
from kvbound.validator import verify_schedule

__all__ = ["TooManyStates", "exhaustive_optimum"]


def exhaustive_optimum(
    instance: Instance, objective: str, *, max_states: int = 2_000_000, every_tick: bool = False, guided: bool = False
) -> tuple[Value, Schedule]:
    """Return the optimal value (an int; a Fraction for normalized-latency) and a schedule that attains it.

    `every_tick` also tries the start times that the argument in `Search` leaves out; `guided` as there. Raises
    TooManyStates.
    """
    search = Search(instance, objective, every_tick=every_tick, guided=guided)
    label, goal = search.run(max_states)
    value, schedule = search.value(label), search.schedule(goal)
    assert objective_value(verify_schedule(instance, schedule), objective) == value
    return value, schedule
