"""The optimum of tiny instances by the tests' own exhaustive search, its schedule passed by the referee."""

from __future__ import annotations

from kvcore.instance import Instance
from kvcore.metrics import Value, objective_value
from kvcore.referee import verify_schedule
from kvcore.schedule import Schedule
from tests.support.truth import TooManyStates, Truth

__all__ = ["TooManyStates", "exhaustive_optimum"]


def exhaustive_optimum(
    instance: Instance, objective: str, *, max_states: int = 2_000_000, every_tick: bool = False
) -> tuple[Value, Schedule]:
    """Return the optimal value (an int; a Fraction for normalized-latency) and a schedule that attains it.

    `every_tick` also tries the start times that the argument in `Truth` leaves out. Raises TooManyStates.
    """
    value, schedule = Truth(instance, objective, every_tick).optimum(max_states)
    assert objective_value(verify_schedule(instance, schedule), objective) == value
    return value, schedule
