"""The optimum of tiny instances by the tests' own exhaustive search, its schedule passed by the referee."""

from kvcore.instance import Instance
from kvcore.metrics import Value, objective_value, tail_of
from kvcore.referee import verify_schedule
from kvcore.schedule import Schedule
from tests.support.truth import TooManyStates, Truth

__all__ = ["TooManyStates", "exhaustive_optimum", "least_percentile"]


def exhaustive_optimum(
    instance: Instance, objective: str, *, max_states: int = 2_000_000, every_tick: bool = False
) -> tuple[Value, Schedule]:
    """Return the optimal value (an int; a Fraction for normalized-latency) and a schedule that attains it.

    `every_tick` also tries the start times that the argument in `Truth` leaves out. Raises TooManyStates.
    """
    value, schedule = Truth(instance, objective, every_tick).optimum(max_states)
    assert objective_value(verify_schedule(instance, schedule), objective) == value
    return value, schedule


def least_percentile(instance: Instance, objective: str, *, max_states: int) -> tuple[int, Schedule]:
    """Return the least time within which all but those that a percentile spares may be over, by bisection."""
    tail = tail_of(objective)
    assert tail is not None
    low, high = 0, 1
    best: Schedule | None = None
    while best is None or high - low > 1:
        within = high if best is None else (low + high) // 2
        late, schedule = exhaustive_optimum(tail.due(instance, within), "late-requests", max_states=max_states)
        if late <= tail.spared(len(instance.requests)):
            high, best = within, schedule
        else:
            low, high = within, max(high, 2 * within * (best is None))
    return high, best.replace(instance_sha256=instance.sha256)
