"""How many batches are enough: against exhaustive optima, and what a horizon that proves nothing may not claim."""

from fractions import Fraction

import pytest

from formulations.horizon import most_batches, sufficient_batches
from kvcore import OBJECTIVES, BadInput
from tests.support.drawer import PROFILES, tiny_instance
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import few
from workloads.builtin import builtin_instance

MARS = builtin_instance("mars-figure1")
SEEDS = few(range(6), 3)


def optima(objective, profile):
    """Yield instances of a profile with their exhaustive optima, those that are quick to find."""
    for seed in SEEDS:
        instance = tiny_instance(seed, **PROFILES[profile])
        try:
            yield instance, *exhaustive_optimum(instance, objective, max_states=400)
        except TooManyStates:
            continue


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_optimal_schedule_fits_into_a_sufficient_horizon(objective):
    """Optimal schedules may have needless batches, which no argument speaks of; these have none that matter."""
    proved = 0
    for profile in PROFILES:
        for instance, value, schedule in optima(objective, profile):
            horizon = sufficient_batches(instance, objective, value)
            if horizon.sufficient:
                proved += 1
                assert len(schedule.batches) <= horizon.batches, (profile, instance.name, horizon)
    assert proved >= 2


def test_what_is_only_a_guess_says_so():
    evicts = MARS.replace(machine=MARS.machine.replace(evict=True))
    assert not sufficient_batches(evicts, "late-requests", 3).sufficient
    assert sufficient_batches(evicts, "late-requests", 3).why.startswith("a guess")


def test_a_smaller_value_never_asks_for_more_batches():
    for objective in ("busy-time", "makespan", "total-flow-time", "max-flow-time", "normalized-latency", "total-ttft"):
        batches = [sufficient_batches(MARS, objective, Fraction(value)).batches for value in range(60, 25, -1)]
        assert batches == sorted(batches, reverse=True)


def test_the_makespan_bounds_the_batches_of_one_tick():
    assert most_batches(MARS, 17)[0] <= 17
    assert sufficient_batches(MARS, "makespan", 17).batches <= 17


def test_bad_bounds_and_objectives_are_refused():
    with pytest.raises(BadInput, match=r"at least 0, not -1"):
        sufficient_batches(MARS, "makespan", -1)
    with pytest.raises(BadInput, match="no objective is called 'x'"):
        sufficient_batches(MARS, "x", 1)
