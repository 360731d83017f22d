"""Orders of batches at potentials: optimal where contexts fit, below optima where KV moves as a whole."""

from contextlib import suppress
from random import Random

import pytest

import kvbound as kv
from bounds.orders import in_order, order_of
from bounds.potentials import Grid, has_grid, of_work, order_to
from bounds.task import Task
from bounds.traced import path
from kvcore import BadInput, Cost, CostFunction, Instance, Machine, objective_value, verify_schedule
from kvcore.certificates import InvalidCertificate, Potential, Potentials
from kvcore.certificates.budget import Most
from kvcore.certificates.potential_kernels import APART
from kvcore.certificates.potentials import PotentialSearch
from kvcore.metrics import SUMS
from library.library import Library
from tests.support.build import instance, request, requests_of
from tests.support.drawer import FRESH, TIGHT, draw_instance
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import ALL, few

FLOW = "total-flow-time"
MOST = 1500 if ALL else 400
"""States of an enumeration."""


def drawn(seed):
    """An instance with calls longer than batches, prefills in parts, and every switch but `partial`."""
    return draw_instance(Random(seed), FRESH.but(partial=False), f"fresh-{seed}")


def tight(seed):
    """An instance in which contexts do not fit together, and KV moves as a whole; swaps take time."""
    return draw_instance(Random(seed), TIGHT, f"tight-{seed}")


def gapped(seed, partial=False):
    """An instance in which a call leaves time for a part of another's prefill; a token that is swapped in is dear."""
    draw = Random(seed)
    calling = request("A", 1, (1, draw.randint(4, 7), draw.choice((0, 0, 1)), draw.choice(("preserve", "free"))), 1)
    arrival = draw.randint(2, 4)
    other = request("B", draw.randint(5, 8), 1, arrival=arrival)
    machine = Machine(memory=20, host_memory=draw.choice((None, 30)), chunked=True, partial=partial)
    cost = Cost((CostFunction(busy=1, tokens=1, swap_in_tokens=draw.choice((4, 9))),))
    return Instance(machine=machine, cost=cost, requests=(calling, other), name=f"gapped-{seed}")


def at_first(tiny, labels=10_000):
    """Return a proof with places at the first prices of the grid."""
    grid = Grid(tiny)
    return grid.proof([grid.potential(point, -1) for point in grid.first()], labels, None)


def at_once(tiny, objective=FLOW, labels=10_000):
    return PotentialSearch(tiny, objective, at_first(tiny, labels))


@pytest.mark.parametrize("kind", [drawn, gapped, pytest.param(tight, marks=pytest.mark.slow)])
def test_no_bound_with_places_is_above_an_optimum(kind):
    count = reached = 0
    for seed in few(range(400), 10):
        tiny, objective = kind(seed), SUMS[seed % len(SUMS)]
        try:
            optimum = exhaustive_optimum(tiny, objective, max_states=MOST)[0]
        except TooManyStates:
            continue
        bounds = [at_once(tiny, objective, labels).run().bound for labels in (1, 7, 10_000)]
        assert bounds == sorted(bounds)
        assert bounds[-1] <= optimum, (tiny.name, objective)
        count, reached = count + 1, reached + (bounds[-1] == optimum)
    assert 10 * reached >= count >= 10
    assert reached >= 3


def test_what_a_gap_has_begun_is_not_processed_again():
    """While A calls, the first part of B's prompt is processed; 23 was claimed where its tokens counted as missing."""
    cost = CostFunction(busy=1, tokens=1, swap_in_tokens=9)
    tiny = instance(*requests_of("A 1 1/5p 1; B 8 1 @3"), cost=(cost,), memory=20)
    assert at_once(tiny).run().bound <= exhaustive_optimum(tiny, FLOW, max_states=20_000)[0] == 21


def test_memory_is_a_reason_and_places_are():
    """Bounds are higher where contexts do not fit together, some more so where it is known where KV is."""
    higher = placed = 0
    for seed in range(160):
        tiny, objective = tight(seed), SUMS[seed // 2 % len(SUMS)]
        roomy = tiny.replace(machine=tiny.machine.replace(memory=None))
        proofs = at_first(roomy), at_first(tiny).replace(places=False), at_first(tiny)
        bounds = [PotentialSearch(given, objective, proof).run().bound
                  for given, proof in zip((roomy, tiny, tiny), proofs, strict=True)]  # fmt: skip
        assert bounds == sorted(bounds)
        with suppress(TooManyStates):
            assert bounds[-1] <= exhaustive_optimum(tiny, objective, max_states=MOST)[0]
        higher, placed = higher + (bounds[0] < bounds[2]), placed + (bounds[1] < bounds[2])
    assert higher >= 9
    assert placed >= 4


def test_the_finder_follows_places_and_discards_as_the_search_does():
    """Where all entries of the grid on which the best order rests are held, its times are those of the whole grid."""
    placed = discards = 0
    for seed in range(40):
        tiny = tight(seed)
        if not has_grid(tiny):
            continue
        grid, search, new = Grid(tiny), at_once(tiny), list[Potential]()
        held = dict.fromkeys(grid.potential(point, -1) for point in grid.first())
        while search.run().is_found:
            order = order_to(search, int(search.orders.labels.heap[0]))
            new = [each for each in grid.active(search.machine, [order]) if each not in held]
            if not new or len(held) + len(new) > Most.potentials:
                break
            held |= dict.fromkeys(new)
            search = PotentialSearch(tiny, FLOW, grid.proof(held, 10_000, None))
        if new or not search.run().is_found:
            continue
        rows = path(search.orders.labels, int(search.orders.labels.heap[0]))[1:]
        walk = grid.walk(search.machine, order)
        assert all(abs(a - b) <= len(rows) for a, b in zip(walk.times, search.orders.time[rows], strict=True)), seed
        placed += any(places != (APART,) * len(places) for _, places in order)
        discards += any(call.handling == "discard" for each in tiny.requests for call in each.calls)
    assert placed >= 5
    assert discards >= 5


def test_work_of_an_idle_time_is_used_once():
    """Both have ten fresh tokens and wait for the call of A: of twelve ticks, two prompts do not get more."""
    waits = request("A", 1, (1, 12, 0, "preserve"), 1)
    both = instance(waits, request("B", 10, 1), request("C", 10, 1), cost=(CostFunction(busy=1, tokens=1),))
    search = PotentialSearch(both, FLOW, of_work(Task(both, FLOW), 0)).run()
    # A's first token at 2, its call until 14; B alone from 2 to 13, then A (14 to 16) and C (16 to 27)
    assert search.is_over
    assert search.bound == 13 + 16 + 26  # ... of which C has one token's work done in the idle tick
    assert search.bound <= exhaustive_optimum(both, FLOW, max_states=10**5)[0]


@pytest.mark.parametrize("name", ["chat-2", "image-3", "math-2", "ve-2"])
def test_real_requests_that_fit_are_proved(name):
    """Requests of the InferCept mixture at real costs: nothing is below the schedule of the library."""
    library = Library()
    record = library.record(name)
    real, best = library.instance(record), library.schedule(record, FLOW)
    value = objective_value(verify_schedule(real, best), FLOW)
    assert of_work(Task(real, FLOW, upper=value), 0).replace(labels=10_000).value(real, FLOW) == value
    assert kv.bound(real, FLOW, method="potentials", upper=value).certificate.value == value


@pytest.mark.parametrize("name", ["chat-2", "image-3", "math-2", "qa-2", "ve-2"])
def test_the_best_order_is_an_optimal_schedule_of_requests_that_fit(name):
    library = Library()
    real = library.instance(library.record(name))
    search = PotentialSearch(real, FLOW, of_work(Task(real, FLOW), 0).replace(labels=20_000))
    bound = search.run().bound
    found = objective_value(verify_schedule(real, in_order(real, order_of(search))), FLOW)
    assert found == bound == library.record(name).objectives[FLOW].value


def test_an_order_keeps_to_the_budgets():
    tight = instance(request("A", 7, 2), request("B", 5, 1), batch_tokens=3, cost=(CostFunction(busy=2, tokens=1),))
    search = PotentialSearch(tight, FLOW, of_work(Task(tight, FLOW), 0).replace(labels=1000))
    bound = search.run().bound
    schedule = in_order(tight, order_of(search))
    assert max(sum(batch.work.values()) for batch in schedule.batches) == 3
    assert objective_value(verify_schedule(tight, schedule), FLOW) >= bound


def test_a_search_that_goes_on_is_the_same_as_one_that_does_not_stop():
    for seed in range(20):
        search = at_once(tight(seed), labels=5000)
        for labels in (1, 2, 5, 9, 40, 300):
            stopped, once = search.run(labels), at_once(tight(seed), labels=labels).run()
            assert (stopped.bound, stopped.is_over) == (once.bound, once.is_over)
            assert at_once(tight(seed), labels=stopped.labels).run().bound == stopped.bound


@pytest.mark.parametrize(("large", "objective", "message"), [
    (instance(*[request(f"R{i}", 1, 1) for i in range(9)]), FLOW, "8 requests at the most"),
    (instance(request("R", 1, 10**6 + 1)), FLOW, "1000000 tokens to generate at the most"),
    (instance(request("R", 1, 2)), "makespan", "potentials is not proved with makespan"),
    (instance(request("R", 1, 2, weight=10**15), cost=(CostFunction(busy=10**6),)), "weighted-flow-time",
     "too large to be added up"),
    (instance(request("R", 1, 2), cost=(CostFunction(busy=10**15, divisor=10**15),)), FLOW, None),
    (instance(request("R", 1, 9, arrival=10**15), cost=(CostFunction(divisor=10**15),)), FLOW, "too large"),
    (instance(request("R", 1, *[(1, 0, 10**15, "free")] * 9300, 1), cost=(CostFunction(generated=1),)), FLOW,
     "too large to be added up"),
    (instance(request("A", 3, 2), memory=5, partial=True), FLOW, "with partial, KV of a request need not be in one"),
])  # fmt: skip
def test_large_instances_are_refused_at_once(large, objective, message):
    proof = Potentials(scale=1, potentials=(), places=True, labels=Most.labels if message else 10, target=2**58)
    if message is None:
        assert proof.value(large, objective) == 2
        return
    with pytest.raises(InvalidCertificate, match=message):
        proof.value(large, objective)


def test_there_is_no_such_function():
    one = instance(request("R", 1, 2))
    with pytest.raises(InvalidCertificate, match="the cost has no such function"):
        Potentials(scale=1, potentials=(), labels=10, function=1).value(one, FLOW)
    with pytest.raises(BadInput, match=r"^potentials is not proved with makespan$"):
        kv.bound(one, "makespan", method="potentials")
