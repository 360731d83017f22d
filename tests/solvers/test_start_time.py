"""Start times of rigid requests: agreement with the exhaustive search, and the program against brute force."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from bounds.tuning import chosen
from kvcore import objective_value, verify_schedule
from solvers import start_time
from solvers.messages import Bound, Found, SolveJob
from solvers.start_time import StartTimeOptions, StartTimes
from tests.kvcore.test_configurations import OBJECTIVES
from tests.support.exhaustive import exhaustive_optimum
from tests.support.few import few
from tests.support.rigid import rigid
from workloads.builtin import builtin_instance

FLOW = "total-flow-time"


def solve(instance, objective=FLOW, upper=None, start=None, time_limit=1e6):
    """Run the way in this process; check every schedule as it comes. Return how it ended, the best value, the bound."""
    values, bounds = [], []

    def send(message):
        if isinstance(message, Bound):
            bounds.append(message.value)
        if isinstance(message, Found):
            assert objective_value(verify_schedule(instance, message.schedule), objective) == message.claimed
            values.append(message.claimed)

    done = start_time.run(
        SolveJob(instance, objective, "start-time", "highs", None, upper, start, time_limit, 2000, 1, 0), send
    )
    return done, min(values, default=None), max(bounds, default=None)


def agree(instance, objective, known):
    """Compare with the exhaustive search, without a schedule to start from and with one."""
    value, schedule = exhaustive_optimum(instance, objective, max_states=1_000_000)[:2]
    start, upper = (schedule, value) if known else (None, None)
    done, found, bound = solve(instance, objective, upper, start)
    assert (done.stop, found, bound) == ("proved", value, value), instance


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_agrees_with_the_exhaustive_search(objective):
    for seed in few(range(96), 8):
        agree(rigid(seed), objective, seed % 2)


def test_agrees_where_requests_arrive_at_different_ticks():
    for seed in range(300, 325):
        agree(rigid(seed, requests=(3, 5), online=True), OBJECTIVES[seed % 2], seed % 3)


def test_a_time_limit_leaves_a_bound():
    done, _, bound = solve(builtin_instance("hindsight-benchmark:seed=2"), time_limit=0.0, upper=6000)
    assert done.stop == "time limit"
    assert bound is None or bound <= 5486  # a bound that is certified (docs/measured.md)


def test_a_program_that_is_too_large_is_not_built():
    with chosen(StartTimeOptions(most_numbers=10)):
        assert solve(rigid(0))[0].stop == "memory limit"


def all_starts(program):
    """Yield the (kind, start) pairs of every choice of starts, and whether it keeps the limits."""
    each = [[t for k, t in program.starts if k == kind] for kind in range(len(program.kinds))]
    choices = (combinations_with_replacement(t, k.count) for t, k in zip(each, program.kinds, strict=True))
    for picked in product(*choices):
        jobs = [(k, start) for k, starts in enumerate(picked) for start in starts]
        use = np.zeros((len(program.limits), program.ticks), int)
        for row, (_, uses) in zip(use, program.limits, strict=True):
            for k, start in jobs:
                row[start : start + len(uses[k])] += uses[k]
        yield jobs, all(row.max() <= limit for row, (limit, _) in zip(use, program.limits, strict=True))


def test_the_rows_allow_what_keeps_the_limits_and_nothing_else():
    kept = broken = 0
    for seed in range(15):
        objective = OBJECTIVES[seed % 3]
        instance = rigid(seed, requests=(2, 3), decode=3)
        optimum = exhaustive_optimum(instance, objective, max_states=100_000)[0]
        program = StartTimes(instance, objective, optimum + 2)
        for jobs, fits in all_starts(program):
            schedule, value = program.schedule(np.array([jobs.count(start) for start in program.starts]))
            program.build(schedule)
            x = program.start()
            rows = program.A @ x
            allowed = (
                (program.row_lower <= rows).all() and (rows <= program.row_upper).all() and (x <= program.upper).all()
            )
            assert (allowed, program.c @ x) == (fits, value)
            kept, broken = kept + fits, broken + (not fits)
    assert min(kept, broken) > 100


def test_it_has_every_schedule_that_is_as_good_as_the_one_known():
    for seed in range(40):
        objective = OBJECTIVES[seed % 2]
        instance = rigid(seed, requests=(2, 4), online=seed % 3 == 0)
        value = exhaustive_optimum(instance, objective, max_states=300_000)[0]
        wide, narrow = (StartTimes(instance, objective, upper) for upper in (None, value))
        assert set(narrow.starts) <= set(wide.starts)
        narrow.build(None)
        for jobs, fits in all_starts(wide) if len(wide.starts) < 40 else ():
            if fits and sum(wide.kinds[k].cost(t) for k, t in jobs) <= value:
                assert set(jobs) <= set(narrow.starts)
