"""Orders of fresh work: below every schedule, the optimum where memory does not bind, and cheap to refuse."""

import json
from contextlib import suppress
from itertools import combinations
from random import Random

import pytest

import kvbound as kv
from bounds.fresh import in_order, order_of, propose_fresh
from bounds.potentials import of_work
from bounds.task import Task
from kvcore import BadInput, Cost, CostFunction, Instance, Machine, objective_value, verify_schedule
from kvcore.certificates import Certificate, Fresh, InvalidCertificate, certify, verify_certificate
from kvcore.certificates import fresh as core
from kvcore.certificates.budget import Most
from kvcore.certificates.fresh import FreshSearch
from kvcore.certificates.labels import FREE, ROWS
from kvcore.certificates.potentials import PotentialSearch
from kvcore.files import parse
from kvcore.metrics import SUMS
from library import check
from library.library import Library
from tests.support.build import instance, request, requests_of
from tests.support.drawer import FRESH, TIGHT, draw_instance
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import ALL, few
from tests.support.plain import FRESH as KERNELS
from tests.support.plain import FRONTIER, LABELS, plain
from tests.support.random_schedules import random_schedule

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


def both_take(tiny, proof, bound, objective=FLOW):
    """Both checkers take a proof of the bound, and `library/check.py` none of more."""
    made, box = certify(tiny, objective, proof, bound), check.read_instance(json.loads(tiny.to_json()))
    assert verify_certificate(tiny, made) == bound
    assert check.verify_certificate(box, json.loads(made.to_json())) == (objective, bound)
    with pytest.raises(check.Broken):
        check.verify_certificate(box, json.loads(made.replace(bound=str(bound + 1)).to_json()))


def compared(seeds, kind):
    """Compare searches with optima by enumeration; return how many of them there were, and how many they reached."""
    count = tight = 0
    for seed in seeds:
        tiny, objective = kind(seed), SUMS[seed % len(SUMS)]
        try:
            optimum = exhaustive_optimum(tiny, objective, max_states=MOST)[0]
        except TooManyStates:
            continue
        bounds = [FreshSearch(tiny, objective, k, *most).run().bound for k in range(len(tiny.cost.functions))
                  for most in ((1,), (7,), (10_000,), (10_000, optimum), (10_000, optimum + 1))]  # fmt: skip
        assert max(bounds) <= optimum, (tiny.name, objective)
        count, tight = count + 1, tight + (max(bounds) == optimum)
    return count, tight


@pytest.mark.parametrize("kind", [drawn, gapped, pytest.param(tight, marks=pytest.mark.slow)])
def test_no_bound_is_above_an_optimum(kind):
    count, reached = compared(few(range(400), 10), kind)
    assert 10 * reached >= count >= 10
    assert reached >= 3


def test_what_a_gap_has_begun_is_not_processed_again():
    """While A calls, the first part of B's prompt is processed; 23 was claimed where its tokens counted as missing."""
    cost = CostFunction(busy=1, tokens=1, swap_in_tokens=9)
    tiny = instance(*requests_of("A 1 1/5p 1; B 8 1 @3"), cost=(cost,), memory=20)
    found = FreshSearch(tiny, FLOW, 0, 10_000).run()
    assert found.bound <= exhaustive_optimum(tiny, FLOW, max_states=20_000)[0] == 21
    both_take(tiny, Fresh(labels=found.labels, memory=True), found.bound)


def test_memory_is_a_reason():
    """Where contexts do not fit together a bound that knows of memory is higher, and both checkers agree."""
    higher = 0
    for seed in (*range(40), 346):  # the last: only what is dropped and refilled ends in time
        tiny, objective = tight(seed), SUMS[seed // 2 % len(SUMS)]
        roomy = tiny.replace(machine=tiny.machine.replace(memory=None))
        plain, knowing = of_work(Task(roomy, objective), 0), FreshSearch(tiny, objective, 0, 10_000).run()
        if plain.replace(labels=10_000).value(roomy, objective) >= knowing.bound:
            continue
        with suppress(TooManyStates):
            assert knowing.bound <= exhaustive_optimum(tiny, objective, max_states=MOST)[0]
        higher += 1
        both_take(tiny, Fresh(labels=knowing.labels, memory=True), knowing.bound, objective)
    assert higher >= 8


def placed(tiny, schedule):
    """Follow a schedule label by label, with memory; return how many had KV away, or lost."""
    trace = verify_schedule(tiny, schedule)
    search, requests = FreshSearch(tiny, FLOW, 0, 1000), tiny.requests
    p, f, at, out = search.jobs, search.orders, 0, 0
    part, here, away = core.kernels.PART, core.kernels.HERE, core.kernels.AWAY
    held, where = [0] * len(requests), [part] * len(requests)  # ... KV of a request, wherever it is
    host, dropped = [0] * len(requests), [False] * len(requests)
    for j, (batch, made_of) in enumerate(zip(schedule.batches, trace.batches, strict=True)):
        made = []
        for i, id in enumerate(one.id for one in requests):
            held[i] -= batch.drop.get(id, 0)
            dropped[i] |= id in batch.drop
            host[i] += batch.swap_out.get(id, 0) - batch.swap_in.get(id, 0) - min(host[i], batch.drop.get(id, 0))
            if id in batch.drop:
                where[i] = part
            elif where[i] != part and (id in batch.swap_in or id in batch.swap_out):
                where[i] = here if id in batch.swap_in else away
            held[i] += batch.work.get(id, 0)
            if any(step.batch == j and step.generated for step in trace.requests[i].steps):
                made.append(i)
        if not made:
            continue
        left = [i for i in range(len(requests)) if f.token[at, i] < p.length[i]]
        for i in left:
            then = f.where[at, i]
            if i in made:
                f.pick[i] = then == away and dropped[i]
            else:
                f.pick[i] = 0 if then in (part, where[i]) else 2 if where[i] == part else 1
        new, rows = int(f.labels.count[FREE]), int(f.labels.count[ROWS])
        core.kernels.step(p, f, at, sum(1 << i for i in made), sum(1 << i for i in left))
        assert f.labels.count[ROWS] == rows + 1
        at, now, dropped = new, made_of.end * search.divisor, [False] * len(requests)
        assert f.time[at] <= now
        early = [0] * len(requests)
        for i in left:
            if i in made:
                where[i], held[i] = f.where[at, i], held[i] * (f.token[at, i] < p.length[i])
                continue
            assert f.where[at, i] == where[i]
            out += where[i] == away or (where[i] == part and f.token[at, i] > 0)
            early[i] = max(0, held[i] - f.kept[at, i])
            assert where[i] != part or held[i] - host[i] <= f.device[at, i]
        waiting = [i for i, x in enumerate(early) if x]
        for size in range(1, len(waiting) + 1):
            for some in combinations(waiting, size):
                assert min(f.open[at, i] for i in some) + p.each * sum(early[i] for i in some) <= now
    assert f.labels.left[at] == 0
    return out


def test_every_schedule_is_covered_by_the_labels_of_its_places():
    """The claims of docs/fresh.md with memory, on random schedules: time, what is early, what the device has."""
    out = 0
    for seed in few(range(500, 7500), 27):
        tiny = tight(seed)
        schedule = random_schedule(Random(seed), tiny)
        out += placed(tiny, schedule)
    assert out >= (3000 if ALL else 100)


@pytest.mark.parametrize("amount", ["blocks", "chunked", "call", "swap_out_ticks", "swap_in_ticks"])
def test_labels_that_know_less_cover_too_little(amount, monkeypatch):
    """Planted: calls and moves take longer, memory has a block less, no work is early; some schedule is not covered."""
    jobs = core._jobs

    def wrong(*given):
        made = jobs(*given)
        less = {"blocks": made.blocks - 1, "chunked": False, "call": 2 * made.call}.get(amount)
        return made._replace(**{amount: 2 * getattr(made, amount) + 1 if less is None else less})

    monkeypatch.setattr(core, "_jobs", wrong)
    with pytest.raises(AssertionError):
        test_every_schedule_is_covered_by_the_labels_of_its_places()


def test_work_of_an_idle_time_is_used_once():
    """Both have ten fresh tokens and wait for the call of A: of twelve ticks, two prompts do not get more."""
    waits = request("A", 1, (1, 12, 0, "preserve"), 1)
    both = instance(waits, request("B", 10, 1), request("C", 10, 1), cost=(CostFunction(busy=1, tokens=1),))
    search = FreshSearch(both, FLOW, 0, 1000).run()
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
    with pytest.raises(InvalidCertificate, match="contexts fit together: potentials prove the same"):
        propose_fresh(Task(real, FLOW))


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


def test_without_numba_the_search_is_the_same(monkeypatch):
    def found():
        return [FreshSearch(drawn(seed), objective, 0, 200).run() for seed in range(20) for objective in SUMS]

    compiled = found()
    monkeypatch.setattr(core, "kernels", plain(LABELS, FRONTIER, KERNELS))
    assert found() == compiled
    assert sum(each.is_over for each in compiled) > 40


def test_a_search_that_goes_on_is_the_same_as_one_that_does_not_stop():
    for seed in range(20):
        search = FreshSearch(drawn(seed), FLOW, 0, 5000)
        for labels in (1, 2, 5, 9, 40, 300):
            stopped, at_once = search.run(labels), FreshSearch(drawn(seed), FLOW, 0, labels).run()
            assert (stopped.bound, stopped.is_over) == (at_once.bound, at_once.is_over)
            assert Fresh(memory=True, labels=stopped.labels).value(drawn(seed), FLOW) == stopped.bound


def test_the_other_checker_agrees():
    """It takes what is proved, and nothing above the least of all orders of batches."""
    for seed in range(60):
        tiny, objective = drawn(seed), SUMS[seed % len(SUMS)]
        look = FreshSearch(tiny, objective, 0, 10_000).run()
        assert look.is_over
        both_take(tiny, Fresh(memory=True, labels=look.labels), look.bound, objective)


@pytest.mark.parametrize(("large", "objective", "message"), [
    (instance(*[request(f"R{i}", 1, 1) for i in range(9)]), FLOW, "8 requests at the most"),
    (instance(request("R", 1, 10**6 + 1)), FLOW, "1000000 tokens to generate at the most"),
    (instance(request("R", 1, 2)), "makespan", "fresh is not proved with makespan"),
    (instance(request("R", 1, 2, weight=10**15), cost=(CostFunction(busy=10**6),)), "weighted-flow-time",
     "too large to be added up"),
    (instance(request("R", 1, 2), cost=(CostFunction(busy=10**15, divisor=10**15),)), FLOW, None),
    (instance(request("R", 1, 9, arrival=10**15), cost=(CostFunction(divisor=10**15),)), FLOW, "too large"),
    (instance(request("R", 1, *[(1, 0, 10**15, "free")] * 9300, 1), cost=(CostFunction(generated=1),)), FLOW,
     "too large to be added up"),
])  # fmt: skip
def test_large_instances_are_refused_at_once(large, objective, message):
    proof = Fresh(memory=True, labels=Most.labels if message else 10, target=2**58)
    if message is None:
        assert proof.value(large, objective) == 2
        return
    with pytest.raises(InvalidCertificate, match=message):
        proof.value(large, objective)


def test_sums_of_huge_prices_do_not_wrap_with_memory():
    """2^32 a token: a product of 2^64 and more, which is next to nothing in 64 bits."""
    two = instance(request("A", 3, 2), request("B", 3, 2), cost=(CostFunction(busy=1, tokens=2**32),))
    two = two.replace(machine=two.machine.replace(memory=5, evict=True, host_memory=0))
    with pytest.raises(InvalidCertificate, match="too large to be added up"):
        Fresh(labels=10, memory=True).value(two, FLOW)


def test_there_is_no_such_function():
    one = instance(request("R", 1, 2))
    with pytest.raises(InvalidCertificate, match="the cost has no function 1"):
        Fresh(memory=True, labels=10, function=1).value(one, FLOW)
    with pytest.raises(BadInput, match=r"^fresh is not proved with makespan$"):
        kv.bound(one, "makespan", method="fresh")


@pytest.mark.parametrize(("key", "value"), [("fee", 1), ("levels", [1])])
def test_files_with_a_fee_or_levels_are_declined(key, value):
    one = instance(request("R", 1, 2))
    file = json.loads(certify(one, FLOW, Fresh(memory=True, labels=10)).to_json())
    file["proof"] |= {"fee": 0, "levels": []}  # as older files have it
    assert verify_certificate(one, parse(Certificate, json.dumps(file), "c.json")) == 2
    assert check.proof(file["proof"], "proof").memory
    file["proof"][key] = value
    with pytest.raises(BadInput, match=f"{key}: "):
        parse(Certificate, json.dumps(file), "c.json")
    with pytest.raises(check.Bad, match=key):
        check.proof(file["proof"], "proof")


def test_without_memory_or_with_partial_potentials_are_named():
    """Both refuse in one line what older files have."""
    two = instance(request("R", 1, 2), request("S", 1, 2), memory=4)
    parts = two.replace(machine=two.machine.replace(partial=True))
    for one, proof, said in (
        (two, Fresh(labels=10), "without memory proves nothing any more: potentials of work prove the same$"),
        (parts, Fresh(labels=10, memory=True), "fresh is not proved with partial$"),
    ):
        made = certify(one, FLOW, proof, 1)
        with pytest.raises(InvalidCertificate, match=said):
            verify_certificate(one, made)
        with pytest.raises(check.Broken, match=r"potentials prove as much$"):
            check.verify_certificate(check.read_instance(json.loads(one.to_json())), json.loads(made.to_json()))
