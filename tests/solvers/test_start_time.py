"""Start times of rigid requests: agreement with the exhaustive search, and each part against brute force."""

import random
from collections import Counter
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

import solvers
from kvcore import Instance, Machine, Request, Segment, objective_value, verify_schedule
from kvcore.certificates.running import TooMany
from kvcore.errors import BadInput
from kvcore.rigid import OBJECTIVES
from solvers.start_time import why_not_rigid
from solvers.start_time.cliques import violated_cliques
from solvers.start_time.lists import by_area
from solvers.start_time.multipliers import Multipliers
from solvers.start_time.network import FAR, ConfigurationNetwork
from solvers.start_time.prices import SCALE, RowPrices, StartColumns
from solvers.start_time.problem import RigidProblem
from solvers.start_time.program import relax
from solvers.start_time.solve import StartTimeSolver
from solvers.start_time.states import Fields, Interrupted, StateSearch
from solvers.task import Bound, Found, Task
from tests.support.build import instance as make
from tests.support.build import request
from tests.support.exhaustive import exhaustive_optimum
from workloads.builtin import builtin_instance

FLOW = "total-flow-time"
RIGID = {"chunked": False, "evict": False, "pause": False, "hybrid": True}
NEVER = float("inf")


def rigid(seed, requests=(2, 4), decode=4, budgets=True, online=False):
    """Return a small random rigid instance: blocks, budgets, weights and requests that are alike included.

    Arrivals are equal, or differ if `online` (then the only budget is that of requests).
    """
    draw = random.Random(seed)
    arrival = draw.choice((0, 0, 3))
    made = [
        request(
            f"R{i}",
            draw.randint(1, 3),
            draw.randint(1, decode),
            weight=draw.choice((1, 1, 2, 5)),
            arrival=draw.randint(2, 6) if online else arrival,
        )
        for i in range(draw.randint(*requests))
    ]
    block = draw.choice((1, 1, 2))
    peaks = [-(-r.peak // block) * block for r in made]
    machine = {"memory": draw.randint(max(peaks), sum(peaks)), "block": block, "host_memory": 0, **RIGID}
    if budgets and draw.random() < 0.5:
        machine["batch_requests"] = draw.choice((None, 1, 2, 3))
    if budgets and not online and draw.random() < 0.5:
        machine["batch_tokens"] = draw.choice((None, 3, 4, 5))
        machine["prefill_tokens"] = draw.choice((None, 3)) if machine["batch_tokens"] else None
    return make(*made, **machine)


class Alone(StartTimeSolver):
    """Without the search for better schedules, which goes on for seconds."""

    def improve(self, seconds):
        pass


def solve(instance, objective=FLOW, time_limit=1e6, **options):
    """Run the solver in this process; check every schedule as it comes. Returns the solver, why it stopped, bounds."""
    values, bounds = [], []

    def send(message):
        if isinstance(message, Bound) and not message.certificate:
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
@pytest.mark.parametrize("way", [3_000_000, 0], ids=["network", "branch and bound"])
def test_agrees_with_the_exhaustive_search(objective, way):
    for seed in range(12):
        instance = rigid(seed)
        expected = exhaustive_optimum(instance, objective, max_states=100_000)[0]
        solver, stopped, bounds = solve(instance, objective, most_configurations=way)
        assert (solver.value, solver.bound, stopped) == (expected, expected, "proved"), (seed, way)
        assert bounds == sorted(bounds)


@pytest.mark.parametrize("way", [3_000_000, 0], ids=["network", "branch and bound"])
def test_agrees_where_requests_arrive_at_different_ticks(way):
    for seed in range(300, 325):
        objective = OBJECTIVES[seed % 2]
        instance = rigid(seed, requests=(3, 5), online=True)
        expected = exhaustive_optimum(instance, objective, max_states=300_000)[0]
        solver, stopped, _ = solve(instance, objective, most_configurations=way)
        assert (solver.value, solver.bound, stopped) == (expected, expected, "proved"), (seed, way)


def test_branch_and_bound_holds_a_solution_that_was_no_event():
    solver, stopped, _ = solve(rigid(142, requests=(2, 5)), "weighted-flow-time", most_configurations=0)
    assert (solver.value, solver.bound, stopped) == (23, 23, "proved")


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("way", [3_000_000, 0], ids=["network", "branch and bound"])
def test_agrees_on_more_seeds(objective, way):
    for seed in range(100, 180):
        instance = rigid(seed, requests=(2, 5))
        expected = exhaustive_optimum(instance, objective, max_states=1_000_000)[0]
        solver, stopped, _ = solve(instance, objective, most_configurations=way)
        assert (solver.value, solver.bound, stopped) == (expected, expected, "proved"), (seed, way)


@pytest.mark.parametrize("name", ["hindsight:n=9,M=12,seed=2", "hindsight:n=10,M=20,P=10,seed=1"])
def test_the_network_and_branch_and_bound_agree(name):
    instance = builtin_instance(name)
    network, stopped, _ = solve(instance)
    programme, also, _ = solve(instance, most_configurations=0)
    assert stopped == also == "proved"
    assert network.value == programme.value
    assert not network.by_solver


@pytest.mark.slow
def test_the_theory_familys_example_is_proved():
    result = solvers.solve(builtin_instance("hindsight:n=14,M=30,seed=14"), formulation="start-time")
    assert (result.status, result.value) == ("optimal", 626)


@pytest.mark.slow
def test_the_driver_runs_it_in_a_worker():
    result = solvers.solve(builtin_instance("hindsight:n=6,M=12,seed=1"), formulation="start-time", certify_limit=0)
    assert (result.status, result.formulation, result.solver.name) == ("claimed", "start-time", "highs")
    assert result.bound_kind == "search"
    assert result.horizon.sufficient


def test_a_time_limit_leaves_a_schedule_and_a_bound():
    solver, stopped, bounds = solve(builtin_instance("hindsight-benchmark:seed=2"), time_limit=1.0)
    assert stopped == "time limit"
    assert bounds[-1] == solver.bound <= 5486 <= solver.value  # a bound that is certified (docs/measured.md)


# --- which instances are rigid ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"chunked": True}, "may be split"),
        ({"evict": True}, "may be evicted"),
        ({"pause": True}, "may sit out"),
        ({"hybrid": False}, "cannot share a batch"),
    ],
)
def test_a_machine_that_is_not_rigid_is_refused(change, why):
    instance = make(request("R1", 1, 2), memory=9, **(RIGID | change))
    assert why in why_not_rigid(instance, FLOW)
    with pytest.raises(BadInput, match=why):
        solvers.solve(instance, formulation="start-time")


def test_calls_arrivals_and_objectives_that_are_not_rigid_are_refused():
    calls = make(request("R1", 1, (1, 2, 0, "preserve"), 1), memory=9, **RIGID)
    arrivals = make(request("R1", 1, 2), request("R2", 1, 2, arrival=1), memory=9, **RIGID)
    tokens = arrivals.replace(machine=arrivals.machine.replace(batch_tokens=2))
    assert "make calls" in why_not_rigid(calls, FLOW)
    assert "total-ttft" in why_not_rigid(arrivals, "total-ttft")
    assert "token budgets" in why_not_rigid(tokens, FLOW)
    assert why_not_rigid(arrivals, FLOW) is None
    assert "no sum over start times" in why_not_rigid(make(request("R1", 1, 2), memory=9, **RIGID), "makespan")
    assert why_not_rigid(make(request("R1", 1, 2, arrival=4), memory=9, **RIGID), FLOW) is None


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
        network = ConfigurationNetwork(problem, ticks, 10_000)
        best = optimum(problem, ticks)
        alive = np.ones(len(columns), np.bool_)
        cliques = violated_cliques(columns, np.full(len(columns), 0.4), np.zeros(len(columns)), alive)
        rows = len(problem.kinds) + len(problem.limits) * ticks + len(cliques)
        for size in (1e3, 1e9, 1e20, np.inf):
            prices = RowPrices.rounded(columns, size * draw.choice([-1.0, 1.0], rows), cliques)
            assert -(2**62) < prices.bound(columns, alive)[0] <= best * SCALE
            sign = draw.choice([-1, 1], len(problem.kinds))
            priced = Multipliers(columns, alive).price(network, sign * int(min(size, 2.0**62)))
            assert -(2**62) < priced.bound <= best * SCALE
            assert max(abs(int(v)) for values in priced.values for v in values) <= FAR


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


def test_no_path_bounds_more_than_the_optimum_and_pruning_keeps_it():
    draw = np.random.default_rng(1)
    for problem, ticks in small_problems(20):
        columns = StartColumns(problem, ticks)
        network = ConfigurationNetwork(problem, ticks, 10_000)
        best = optimum(problem, ticks)
        multipliers = Multipliers(columns, np.ones(len(columns), np.bool_))
        for _ in range(8):
            priced = multipliers.price(network, draw.integers(-SCALE, 9 * SCALE, len(problem.kinds)))
            assert priced.bound <= best * SCALE
            pruned = network.pruned(priced.cost, priced.values, best * SCALE - priced.offset)
            assert pruned is not None
            small, values = pruned
            assert values[0][small.source] == priced.values[0][network.source]
            assert small.distances(priced.cost)[0][small.source] == values[0][small.source]
            search = StateSearch(small, problem.counts, priced.cost, values, 10**9)
            passed = search.run(best * SCALE - priced.offset, 10**9, NEVER)
            assert passed.cost + priced.offset == best * SCALE
            assert search.run((best - 1) * SCALE - priced.offset, 10**9, NEVER).path is None


def optimum(problem, ticks):
    return min(value(problem, jobs) for jobs in all_starts(problem, ticks))


def value(problem, jobs):
    return sum(problem.kinds[k].rate * (start + problem.kinds[k].span) for k, start in jobs)


# --- parts -----------------------------------------------------------------------------------------------------------


def test_configurations_are_those_that_can_run_at_once():
    for problem, _ in small_problems(30):
        least = sum(1 for _ in running_sets(problem))
        assert ConfigurationNetwork(problem, 1, 10_000).arcs() == least
        with pytest.raises(TooMany):
            ConfigurationNetwork(problem, 1, min(least - 1, 20) if least > 1 else 0)


def running_sets(problem):
    """Yield the sets of (remaining loads, kind if it starts) that fit to their ends, as the definition says."""
    elements = {
        (kind.load[q:], k if q == 0 else -1) for k, kind in enumerate(problem.kinds) for q in range(kind.length)
    }
    groups = Counter(kind.load[-1] for kind in problem.kinds for _ in range(kind.count))
    for size in range(sum(groups.values()) + 1):
        for chosen in combinations_with_replacement(sorted(elements), size):
            if (
                all(n <= groups[h] for h, n in Counter(load[-1] for load, _ in chosen).items())
                and all(n <= problem.kinds[k].count for k, n in Counter(k for _, k in chosen).items() if k >= 0)
                and together(problem, chosen)
            ):
                yield chosen


def together(problem, chosen):
    for tick in range(max((len(load) for load, _ in chosen), default=0)):
        if sum(load[tick] for load, _ in chosen if tick < len(load)) > problem.memory:
            return False
    for limit, uses in problem.limits[1:]:
        later = next((use[1] for use in uses if len(use) > 1), 0)
        if sum(uses[k][0] if k >= 0 else later for _, k in chosen) > limit:
            return False
    return True


def test_fields_count_down_and_never_below_zero():
    counts = np.array([1, 3, 2, *([1] * 40)])
    sets = np.zeros((3, len(counts)), int)
    sets[0, 1], sets[1, 0], sets[2, 42] = 2, 1, 1
    fields = Fields(counts, sets)
    assert fields.words == 2
    left = fields.all[None, :]
    for chosen, fine in ((0, True), (0, False), (1, True), (1, False), (2, True), (2, False)):
        can, after = fields.take(left, np.array([chosen], np.int32))
        assert can.tolist() == [fine]
        left = after if fine else left
    expected = counts - [0, 2] @ np.array([sets[0], sets[0]]) // 2 - sets[1] - sets[2]
    assert (left == fields.pack(expected[None, :])).all()


def test_lists_keep_the_limits():
    for seed in range(8):
        problem = RigidProblem(rigid(seed, requests=(3, 6)), FLOW)
        jobs = by_area(problem)
        trace = verify_schedule(problem.instance, problem.schedule(jobs))
        assert objective_value(trace, FLOW) == problem.value(jobs)


def test_a_pass_stops_at_its_limits():
    problem = RigidProblem(builtin_instance("hindsight:n=6,M=12,seed=1"), FLOW)
    columns = StartColumns(problem, 30)
    network = ConfigurationNetwork(problem, 30, 100_000)
    priced = Multipliers(columns, np.ones(len(columns), np.bool_)).price(network, np.zeros(len(problem.kinds), int))
    search = StateSearch(network, problem.counts, priced.cost, priced.values, 0)
    with pytest.raises(Interrupted) as stopped:
        search.run(10**6, 10, NEVER)
    assert stopped.value.why == "memory limit"
    with pytest.raises(Interrupted) as stopped:
        search.run(10**6, 10, 0.0)
    assert stopped.value.why == "time limit"


def test_a_start_of_the_search_is_refused_where_numbers_are_too_large():
    heavy = Instance(
        machine=Machine(memory=9, host_memory=0, **RIGID),
        requests=(Request(id="R1", prompt=1, weight=10**9, segments=(Segment(decode=1),)),),
    )
    assert "too large" in why_not_rigid(heavy, "weighted-flow-time")
