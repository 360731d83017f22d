"""The search over counts: agreement with the exhaustive search, bounds at every state, and where it applies."""

import contextlib
import random
from functools import cache
from itertools import product

import numpy as np
import pytest

from heuristics import best_schedule, get_policy, run_policy
from kvcore import Cost, Instance, Machine, Request, Segment, objective_value, verify_schedule
from kvcore.certificates.events import find
from kvcore.cost import CostFunction
from solvers.counts import CountSearch, count_model, fitting_vectors
from solvers.counts.cost_to_go import NEVER, CostToGo
from solvers.counts.pool_prices import first_prices
from solvers.counts.solve import run
from solvers.messages import NEWS, Bound, Found, SolveJob
from solvers.ways import COUNTS
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import ALL, few
from workloads.builtin import builtin_instance

MOST = 10**6


def like_requests(seed):
    """Return a tiny instance of two to four requests of one or two kinds, with a random linear cost."""
    draw = random.Random(seed)
    kinds = [(draw.randint(1, 3), draw.randint(1, 4)) for _ in range(draw.choice((1, 1, 2)))]
    pairs = [draw.choice(kinds) for _ in range(draw.choice((2, 3, 3, 4)))]
    block = draw.choice((1, 1, 2))
    blocks = [-(-(prompt + output - 1) // block) for prompt, output in pairs]
    evict = draw.random() < 0.7
    tokens = draw.randint(0, 3)
    cost = CostFunction(
        busy=draw.choice((1, 3, 10, 30)),
        tokens=tokens,
        generated=draw.randint(0, 2),
        prefill_requests=draw.randint(0, 2),
        prefill_kv=draw.randint(0, 2),
        decode_kv=draw.randint(0, tokens if evict else 3),
        decode_requests=draw.randint(0, 2) if not evict else 0,
    )
    return Instance(
        name=f"like-{seed}",
        machine=Machine(
            memory=block * draw.randint(max(blocks), sum(blocks)), block=block, evict=evict,
            chunked=draw.random() < 0.7,
        ),
        cost=Cost((cost,)),
        requests=tuple(
            Request(id=f"R{i}", arrival=draw.randint(0, 3), prompt=prompt, segments=(Segment(decode=output),))
            for i, (prompt, output) in enumerate(pairs)
        ),
    )  # fmt: skip


def solved(instance, objective="busy-time", start=None):
    """Run the worker in this process; return its best value and bound, both proved by the end, and its schedule."""
    sent = []
    job = SolveJob(instance, objective, "counts", "counts", None, None, start, 1e9, 4000, 1, 0)
    assert run(job, sent.append).stop == "proved"
    schedule = next((each.schedule for each in sent[::-1] if isinstance(each, Found)), start)
    schedule = schedule or best_schedule(instance, objective)[1]
    bounds = [each.value for each in sent if isinstance(each, Bound)]
    claimed = [each.claimed for each in sent if isinstance(each, Found)]
    assert bounds == sorted(bounds)
    assert claimed == sorted(set(claimed), reverse=True)
    value = objective_value(verify_schedule(instance, schedule), objective)
    assert claimed[-1:] in ([], [value])
    return value, bounds[-1], schedule


def test_agrees_with_the_exhaustive_search():
    compared = 0
    for seed in few(range(45), 4):
        instance = like_requests(seed)
        try:
            expected = exhaustive_optimum(instance, "busy-time", max_states=1500 if ALL else 700)[0]
        except TooManyStates:
            continue
        assert count_model(instance, "busy-time") is not None, instance.name
        assert solved(instance)[:2] == (expected, expected), instance.name
        compared += 1
    assert compared > 8


def test_agrees_with_the_search_over_batch_boundaries():
    for seed in few(range(200, 260), 5):
        instance = like_requests(seed)
        found = find(instance, "busy-time", 200_000)
        assert found.is_optimum
        assert solved(instance)[:2] == (found.bound, found.bound), seed


def test_a_start_and_the_news_are_taken_in(monkeypatch):
    instance = builtin_instance("identical:n=4,I=4,O=3,M=12")
    value, _, best = solved(instance)
    assert solved(instance, start=best) == (value, value, best)
    sent = []
    monkeypatch.setattr(NEWS, "value", value)
    worst = run_policy(instance, get_policy("serial"))
    job = SolveJob(instance, "busy-time", "counts", "counts", None, None, worst, 1e9, 4000, 1, 0)
    assert run(job, sent.append).stop == "proved"
    assert sent[-1] == Bound(value)


# --- bounds ----------------------------------------------------------------------------------------------------------


def exact_rest(model):
    """Return a function (slots, pools, batches) -> the exact cost of the rest in so many batches, by brute force."""
    steps = model.steps

    def batches_from(slots, pools):
        """Yield the slots and pools after every choice of steps, with its cost."""
        limits = [slots[s.takes] if s.takes >= 0 else pools[s.out_of] for s in steps]
        for times in product(*(range(limit + 1) for limit in limits)):
            kept, held, cost = list(slots), list(pools), 0
            gained = [0] * len(slots)
            for step, count in zip(steps, times, strict=True):
                cost += step.cost * count
                if step.takes >= 0:
                    kept[step.takes] -= count
                if step.gives >= 0:
                    gained[step.gives] += count
                if step.out_of >= 0:
                    held[step.out_of] -= count
                if step.into >= 0:
                    held[step.into] += count
            if min(kept) < 0:
                continue
            full = [a + b for a, b in zip(kept, gained, strict=True)]
            if sum(a * size for a, size in zip(full, model.sizes, strict=True)) <= model.memory:
                yield tuple(0 if i in model.ends else a for i, a in enumerate(full)), tuple(held), cost

    @cache
    def rest(slots, pools, batches):
        if not any(slots) and not any(pools):
            return 0
        if batches == 0:
            return NEVER
        return min((cost + rest(a, b, batches - 1) for a, b, cost in batches_from(slots, pools)), default=NEVER)

    return rest, batches_from


@pytest.mark.parametrize("seed", few(range(300, 320)))
def test_no_bound_exceeds_the_cost_of_the_rest(seed):
    instance = like_requests(seed).replace(requests=like_requests(seed).requests[:3])
    model = count_model(instance, "busy-time")
    vectors = fitting_vectors(model, MOST)
    number = {tuple(row): i for i, row in enumerate(vectors.counts.tolist())}
    rest, batches_from = exact_rest(model)
    draw = np.random.default_rng(seed)
    shift = draw.integers(-20, 60, (3, len(model.pools)))
    tables = [CostToGo(vectors, first_prices(model) + row) for row in shift]
    longest = sum(request.output for request in instance.requests)
    states = {((0,) * len(model.slots), model.start)}
    checked = 0
    for depth in range(3):
        states |= {(a, b) for slots, pools in states for a, b, _ in batches_from(slots, pools)}
        for slots, pools in states:
            for batches in range(longest + 1 - depth):
                exact = rest(slots, pools, batches)
                if exact >= NEVER:
                    continue
                for to_go in tables:
                    to_go.extend(batches)
                    bound = int(to_go.ends[batches][number[slots]] + np.array(pools) @ to_go.prices)
                    assert bound <= exact, (slots, pools, batches)
                    checked += 1
    assert checked > 10


@pytest.mark.slow
def test_prices_of_any_size_are_cut_to_what_64_bits_hold():
    draw = np.random.default_rng(7)
    for seed in range(300, 306):
        model = count_model(like_requests(seed), "busy-time")
        vectors = fitting_vectors(model, MOST)
        best, _, schedule = solved(like_requests(seed))
        batches = len(schedule.batches)
        for size in (10**4, 10**12, 2**62):
            to_go = CostToGo(vectors, size * draw.choice([-1, 1], len(model.pools)))
            assert abs(to_go.prices).max() <= min(size, 2**57)
            try:
                bound = to_go.at_start(batches) + batches * model.batch
            except MemoryError:
                assert size > 10**12
                continue
            assert -(2**61) < bound <= best


def test_costs_beyond_62_bits_stop_the_search():
    vectors = fitting_vectors(count_model(like_requests(300), "busy-time"), MOST)
    to_go = CostToGo(vectors, np.full(len(vectors.model.pools), 2**62))
    with pytest.raises(MemoryError, match="62 bits"):
        to_go.extend(1000)


def test_a_stopped_search_keeps_a_valid_bound():
    instance = builtin_instance("identical:n=8,I=8,O=4,M=32")
    optimum = solved(instance)[0]
    for rounds in (1, 10, 40, 160, 640):
        left = [rounds]

        def stop(_, left=left):
            left[0] -= 1
            if left[0] < 0:
                raise TimeoutError

        vectors = fitting_vectors(count_model(instance, "busy-time"), MOST)
        counts = CountSearch(vectors, 10 * optimum, lambda _: optimum, stop)
        with contextlib.suppress(TimeoutError):
            counts.run()
        assert 0 < counts.bound() <= optimum


# --- known values and limits -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sixteen_like_requests():
    instance = builtin_instance("identical:n=16,I=32,O=8,M=128")
    assert solved(instance)[:2] == (4742960, 4742960)


def test_the_makespan_counts_the_arrival():
    instance = builtin_instance("identical:n=4,I=4,O=3,M=12")
    busy = solved(instance)[0]
    late = instance.replace(requests=tuple(r.replace(arrival=7) for r in instance.requests))
    assert solved(late, "makespan")[:2] == (busy + 7, busy + 7)


@pytest.mark.parametrize(
    "change",
    [
        {"hybrid": False}, {"pause": False}, {"partial": True}, {"host_memory": 1}, {"batch_requests": 2},
        {"batch_tokens": 5, "prefill_tokens": None},
    ],
)  # fmt: skip
def test_where_counts_do_not_apply(change):
    instance = builtin_instance("identical:n=4,I=4,O=3,M=12")
    assert count_model(instance, "busy-time") is not None
    assert count_model(instance.replace(machine=instance.machine.replace(**change)), "busy-time") is None
    assert count_model(instance, "total-flow-time") is None
    assert COUNTS.declines(instance, "total-flow-time") == "counts is not proved with total-flow-time"


@pytest.mark.parametrize("cost", [{"divisor": 2}, {"any_decode": 1}, {"any_prefill": 1}, {"prefill_pairs": 1}])
def test_costs_that_are_not_counted(cost):
    instance = builtin_instance("identical:n=4,I=4,O=3,M=12")
    assert count_model(instance.replace(cost=Cost((CostFunction(busy=9, **cost),))), "busy-time") is None


def test_counts_are_refused_where_memory_holds_too_many_kinds():
    assert fitting_vectors(count_model(builtin_instance("identical:n=64,I=32,O=8,M=512"), "busy-time"), 1000) is None
