"""Start times of rigid requests: agreement with the exhaustive search, and each part against brute force."""

from collections import Counter
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from kvcore import objective_value, verify_schedule
from kvcore.rigid import OBJECTIVES
from solvers.start_time.cliques import violated_cliques
from solvers.start_time.lists import by_area
from solvers.start_time.prices import SCALE, RowPrices, StartColumns
from solvers.start_time.problem import RigidProblem
from solvers.start_time.program import relax
from solvers.start_time.solve import StartTimeSolver
from solvers.task import Bound, Found, Task
from tests.support.exhaustive import exhaustive_optimum
from tests.support.rigid import rigid
from workloads.builtin import builtin_instance

FLOW = "total-flow-time"
NEVER = float("inf")


class Alone(StartTimeSolver):
    """Without the search for better schedules, which goes on for seconds."""

    def improve(self, seconds):
        pass


def solve(instance, objective=FLOW, time_limit=1e6, **options):
    """Run the solver in this process; check every schedule as it comes. Returns the solver, why it stopped, bounds."""
    values, bounds = [], []

    def send(message):
        if isinstance(message, Bound):
            bounds.append(message.value)
        if isinstance(message, Found):
            assert objective_value(verify_schedule(instance, message.schedule), objective) == message.claimed
            values.append(message.claimed)

    task = Task(instance, objective, "start-time", "highs", None, None, None, time_limit, 2000, 1, 0)
    solver = Alone(task, send, **options)
    stopped = solver.run()
    assert values == sorted(values, reverse=True)
    assert solver.value == values[-1]
    return solver, stopped, bounds


def all_starts(problem, ticks):
    """Yield every feasible schedule that ends by `ticks` as the set of (kind, start) pairs with their numbers."""
    each = [range(ticks - kind.length + 1) for kind in problem.kinds]
    choices = [combinations_with_replacement(e, kind.count) for e, kind in zip(each, problem.kinds, strict=True)]
    for chosen in product(*choices):
        jobs = [(k, start) for k, starts in enumerate(chosen) for start in starts]
        if fits(problem, jobs, ticks):
            yield jobs


def fits(problem, jobs, ticks):
    for limit, uses in problem.limits:
        use = np.zeros(ticks, int)
        for k, start in jobs:
            use[start : start + len(uses[k])] += uses[k]
        if use.max() > limit:
            return False
    return True


def small_problems(number, **options):
    for seed in range(number):
        problem = RigidProblem(rigid(seed, requests=(2, 3), decode=3, **options), OBJECTIVES[seed % 3])
        yield problem, min(9, sum(kind.count * kind.length for kind in problem.kinds))


# --- optima ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_agrees_with_the_exhaustive_search(objective):
    for seed in range(12):
        instance = rigid(seed)
        expected = exhaustive_optimum(instance, objective, max_states=100_000)[0]
        solver, stopped, bounds = solve(instance, objective)
        assert (solver.value, solver.bound, stopped) == (expected, expected, "proved"), seed
        assert bounds == sorted(bounds)


def test_agrees_where_requests_arrive_at_different_ticks():
    for seed in range(300, 325):
        objective = OBJECTIVES[seed % 2]
        instance = rigid(seed, requests=(3, 5), online=True)
        expected = exhaustive_optimum(instance, objective, max_states=300_000)[0]
        solver, stopped, _ = solve(instance, objective)
        assert (solver.value, solver.bound, stopped) == (expected, expected, "proved"), seed


def test_branch_and_bound_holds_a_solution_that_was_no_event():
    solver, stopped, _ = solve(rigid(142, requests=(2, 5)), "weighted-flow-time")
    assert (solver.value, solver.bound, stopped) == (23, 23, "proved")


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_agrees_on_more_seeds(objective):
    for seed in range(100, 180):
        instance = rigid(seed, requests=(2, 5))
        expected = exhaustive_optimum(instance, objective, max_states=1_000_000)[0]
        solver, stopped, _ = solve(instance, objective)
        assert (solver.value, solver.bound, stopped) == (expected, expected, "proved"), seed


def test_a_time_limit_leaves_a_schedule_and_a_bound():
    solver, stopped, bounds = solve(builtin_instance("hindsight-benchmark:seed=2"), time_limit=1.0)
    assert stopped == "time limit"
    assert bounds[-1] == solver.bound <= 5486 <= solver.value  # a bound that is certified (docs/measured.md)


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_conflicts_are_exactly_the_pairs_that_no_schedule_has():
    for problem, ticks in small_problems(12, budgets=False):
        columns = StartColumns(problem, ticks)
        together = set()
        for jobs in all_starts(problem, ticks):
            together |= {(a, b) for i, a in enumerate(jobs) for b in jobs[i + 1 :]}
        pairs = list(zip(columns.kind.tolist(), columns.start.tolist(), strict=True))
        for j, one in enumerate(pairs):
            conflicts = columns.conflicts(j, np.arange(len(columns)))
            for other, conflict in zip(pairs, conflicts.tolist(), strict=True):
                if conflict:
                    assert (one, other) not in together
            assert columns.once[j] == conflicts[j]


def test_no_schedule_violates_a_clique():
    found = 0
    for problem, ticks in small_problems(25):
        columns = StartColumns(problem, ticks)
        x = np.full(len(columns), 0.4)
        cliques = violated_cliques(columns, x, np.zeros(len(columns)), columns.possible)
        place = {pair: j for j, pair in enumerate(zip(columns.kind.tolist(), columns.start.tolist(), strict=True))}
        for jobs in all_starts(problem, ticks):
            taken = Counter(place[job] for job in jobs)
            for clique in cliques:
                assert sum(taken[j] for j in clique.tolist()) <= 1
        found += len(cliques)
    assert found > 50


def test_no_price_bounds_more_than_the_optimum():
    draw = np.random.default_rng(0)
    for problem, ticks in small_problems(20):
        columns = StartColumns(problem, ticks)
        best = optimum(problem, ticks)
        alive = np.ones(len(columns), np.bool_)
        cliques = violated_cliques(columns, np.full(len(columns), 0.4), np.zeros(len(columns)), alive)
        for _ in range(20):
            prices = RowPrices(
                draw.integers(-SCALE, 12 * SCALE, len(problem.kinds)),
                [draw.integers(0, SCALE, ticks) * draw.integers(0, 2, ticks) for _ in problem.limits],
                [(clique, int(draw.integers(0, SCALE))) for clique in cliques],
            )
            assert prices.bound(columns, alive)[0] <= best * SCALE


def test_prices_of_any_size_are_cut_to_what_64_bits_hold():
    draw = np.random.default_rng(2)
    for problem, ticks in small_problems(10):
        columns = StartColumns(problem, ticks)
        best = optimum(problem, ticks)
        alive = np.ones(len(columns), np.bool_)
        cliques = violated_cliques(columns, np.full(len(columns), 0.4), np.zeros(len(columns)), alive)
        rows = len(problem.kinds) + len(problem.limits) * ticks + len(cliques)
        for size in (1e3, 1e9, 1e20, np.inf):
            prices = RowPrices.rounded(columns, size * draw.choice([-1.0, 1.0], rows), cliques)
            assert -(2**62) < prices.bound(columns, alive)[0] <= best * SCALE


def test_the_linear_program_keeps_the_columns_of_every_better_schedule():
    dropped = 0
    for problem, ticks in small_problems(20):
        columns = StartColumns(problem, ticks)
        place = {pair: j for j, pair in enumerate(zip(columns.kind.tolist(), columns.start.tolist(), strict=True))}
        cutoff = optimum(problem, ticks) + 1
        relaxation = relax(columns, cutoff, NEVER, lambda bound: None)
        assert relaxation.bound <= (cutoff - 1) * SCALE
        for jobs in all_starts(problem, ticks):
            if value(problem, jobs) <= cutoff:
                assert all(relaxation.alive[place[job]] for job in jobs)
        dropped += int((~relaxation.alive).sum())
    assert dropped > 20


def optimum(problem, ticks):
    return min(value(problem, jobs) for jobs in all_starts(problem, ticks))


def value(problem, jobs):
    return sum(problem.kinds[k].rate * (start + problem.kinds[k].span) for k, start in jobs)


# --- parts -----------------------------------------------------------------------------------------------------------


def test_lists_keep_the_limits():
    for seed in range(8):
        problem = RigidProblem(rigid(seed, requests=(3, 6)), FLOW)
        jobs = by_area(problem)
        trace = verify_schedule(problem.instance, problem.schedule(jobs))
        assert objective_value(trace, FLOW) == problem.value(jobs)
