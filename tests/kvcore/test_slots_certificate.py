"""The certificate `slots`: what it proves is true, what is true it proves, and the compiled search is the plain one."""

import os
import random
import subprocess
import sys

import numpy as np
import pytest

from bounds.slot_solver import SlotOptions, SlotSolver, climb
from bounds.task import Proposal, Task
from kvcore import OBJECTIVES
from kvcore.certificates import InvalidCertificate, SlotPrices, Slots, certify, verify_certificate
from kvcore.certificates.budget import Budget, Most
from kvcore.certificates.slot_graph import LocalGraphs
from kvcore.certificates.slot_kernels import find
from kvcore.certificates.slot_search import SlotSearch, Vector
from kvcore.cost import Cost, CostFunction
from kvcore.errors import BadInput
from kvcore.instance import Call, Instance, Machine, Request, Segment
from kvcore.limits import SHARED
from kvcore.metrics import objective_value, scale_of
from kvcore.referee import verify_schedule
from kvcore.schedule import Schedule
from tests.support.drawer import PROFILES, tiny_instance
from tests.support.exhaustive import exhaustive_optimum
from tests.support.few import few
from workloads.builtin import builtin_instance


class Quick(SlotOptions):
    fewest, sample, rounds = 5, 8, 20


QUICK = Quick(root_rounds=100)
"""Few subgradients, and further prices from five states on: tiny instances then have several vectors."""
MARS = builtin_instance("mars-figure1")
TAKEN = [objective for objective in OBJECTIVES if objective != "late-requests"]


def drawn(seed):
    draw = random.Random(seed)
    fixed = PROFILES[draw.choice(list(PROFILES))] | {"cost": "unit", "requests": 2}
    return tiny_instance(seed, **fixed), draw.choice(TAKEN)


def proof_of(instance, objective="total-flow-time"):
    proofs = [found.proof for found in climb(Task(instance, objective)) if isinstance(found, Proposal)]
    assert isinstance(proofs[-1], Slots)
    return proofs[-1]


@pytest.mark.parametrize(("free", "optimum"), [(False, 29), (True, 27)])
def test_figure_1_of_mars_is_certified(free, optimum):
    instance = MARS.with_free_calls() if free else MARS
    proof = proof_of(instance)
    assert verify_certificate(instance, certify(instance, "total-flow-time", proof)) == optimum
    with pytest.raises(InvalidCertificate, match=f"its search finds an end at {optimum}, below {optimum + 1}"):
        proof.replace(target=optimum + 1, states=1000, tries=100_000).value(instance, "total-flow-time")


@pytest.mark.parametrize(
    ("k", "optimum"),
    [(3, 65), (6, 118), *(pytest.param(*more, marks=pytest.mark.slow) for more in ((4, 183), (5, 255)))],
)
def test_samples_that_evict_are_certified(k, optimum):
    instance = builtin_instance(f"infercept-sample:k={k},evict=1").with_free_calls()
    solver = SlotSolver(Task(instance, "total-flow-time"))
    assert solver.lowest(optimum) <= optimum
    proof, _ = solver.search(optimum, Most.tries)
    assert proof is not None
    assert proof.value(instance, "total-flow-time") == optimum


@pytest.mark.parametrize("seed", few([*range(4, 200), *range(4)]))
def test_the_search_ends_at_the_optimum_with_a_certificate(seed):
    instance, objective = drawn(seed)
    optimum, _ = exhaustive_optimum(instance, objective)
    found = list(climb(Task(instance, objective), QUICK))
    values = [
        objective_value(verify_schedule(instance, each), objective) for each in found if isinstance(each, Schedule)
    ]
    proved = [each.proof.value(instance, objective) for each in found if isinstance(each, Proposal)]
    assert max(proved) <= optimum <= min(values, default=optimum)
    if objective != "total-ttft":  # where what has first tokens may wait for memory for ever
        assert proved[-1] == optimum == min(values)


@pytest.mark.parametrize("seed", few(range(2000, 2100)))
def test_without_simulation_and_exchange_it_proves_the_same(seed, monkeypatch):
    instance, objective = drawn(seed)
    proof = proof_of(instance, objective).replace(states=4_000_000, tries=10**9)
    monkeypatch.setattr(Most, "pairs", -1)
    monkeypatch.setattr("kvcore.certificates.slot_graph._LAST", {})
    merged = LocalGraphs(instance, objective).reduced
    assert len(merged.better) == 0
    assert len(merged.state) == len(LocalGraphs(instance, objective).states)
    assert proof.value(instance, objective) * scale_of(instance.requests, objective) == proof.target


COUNT = """
from tests.kvcore.test_slots_certificate import QUICK, drawn
from tests.support.few import few
from bounds.slot_solver import SlotSolver
from bounds.task import Task
for seed in few(range(3000, 3012)):
    instance, objective = drawn(seed)
    solver = SlotSolver(Task(instance, objective), QUICK)
    least = solver.lowest()
    for target in (least, least + 2):
        _, outcome = solver.run(target)
        print("search", seed, outcome.proved, outcome.states, outcome.tries, outcome.cost)
"""


def test_the_plain_functions_do_the_same():
    def counts(**environment):
        made = subprocess.run(
            [sys.executable, "-W", "ignore::RuntimeWarning", "-c", COUNT],
            env=os.environ | environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return [line for line in made.stdout.splitlines() if line.startswith("search")]  # HiGHS may say who it is

    compiled = counts()
    assert len(compiled) == 2 * len(few(range(12)))
    assert counts(NUMBA_DISABLE_JIT="1") == compiled


@pytest.mark.parametrize("seed", range(20))
def test_what_must_go_on_is_not_answered_by_what_holds_more(seed):
    """Without `pause`, a state without rest pays for its blocks where it idles, and values must be monotone there."""
    call = Call(duration=0, returns=1, handling="free")
    request = Request(id="A", prompt=6, segments=(Segment(decode=1, call=call), Segment(decode=1)))
    machine = Machine(memory=20, block=4, host_memory=0, evict=False, pause=False)
    instance = Instance(machine=machine, requests=(request,))
    search, draw = SlotSearch(LocalGraphs(instance, "total-flow-time"), 8, 1), random.Random(seed)
    search.add(
        Vector(0, np.array([[draw.randint(0, 5) for _ in range(search.slots)]] + [[0] * search.slots] * (SHARED - 1)))
    )
    worth = search.value_rows(0)
    reduced = search.reduced
    pairs = [(reduced.better[k], b) for b in range(len(reduced.state)) for k in range(*reduced.better_first[b : b + 2])]
    assert pairs
    assert all((worth[:, a] <= worth[:, b]).all() for a, b in pairs)


def refused(proof, instance, objective="total-flow-time"):
    with pytest.raises(InvalidCertificate) as caught:
        proof.value(instance, objective)
    return str(caught.value)


def test_what_is_refused_is_named(monkeypatch):
    instance, free = MARS, Slots(target=29, scale=64, prices=(SlotPrices(),), states=1000, tries=10**6)
    assert free.value(instance, "total-flow-time") == 29
    slow = instance.replace(cost=Cost((CostFunction(busy=2),)))
    assert "slots is not proved with batches of several ticks" in refused(free, slow)
    assert "slots is not proved with late-requests" in refused(free, instance, "late-requests")
    first = free.replace(prices=(SlotPrices(since=1),))
    assert "the first prices must be of use from the first slot on" in refused(first, instance)
    large = free.replace(prices=(SlotPrices(device=(2**50,) * 10),))
    assert "sums could exceed 64 bits" in refused(large, instance)
    unlimited = instance.replace(machine=instance.machine.replace(host_memory=None))
    priced = free.replace(prices=(SlotPrices(host=(1,)),))
    assert "prices of host, which have no limit" in refused(priced, unlimited)
    assert "does not end within 5 states" in refused(free.replace(states=5), instance)
    heavy = instance.replace(requests=tuple(r.replace(weight=10**15) for r in instance.requests))
    assert "sums could exceed 64 bits" in refused(free.replace(target=10**15), heavy, "weighted-flow-time")
    far = instance.replace(requests=(*instance.requests, instance.requests[0].replace(id="late", arrival=10**6)))
    monkeypatch.setattr(Most, "local_states", 1000)
    assert "slots take at most 1000 local states" in refused(free, far)


def test_many_requests_and_slow_batches_are_declined():
    crowd = MARS.replace(requests=tuple(MARS.requests[0].replace(id=str(i)) for i in range(101)))
    proof = Slots(target=1, scale=1, prices=(SlotPrices(),), states=1, tries=1)
    with pytest.raises(InvalidCertificate, match="slots take at most 100 requests"):
        proof.value(crowd, "total-flow-time")
    with pytest.raises(InvalidCertificate, match="slots is not proved with percentiles"):
        proof.value(MARS, "p99-ttft")
    with pytest.raises(BadInput, match="slots are searched for at most 32 requests"):
        SlotSolver(Task(crowd, "total-flow-time"))


@pytest.mark.parametrize("partial", [False, True])
def test_the_options_of_a_huge_request_are_counted_before_they_are_looked_at(partial):
    machine = Machine(memory=10**9, partial=partial, evict=partial)
    huge = Instance(machine=machine, requests=(Request(id="R1", prompt=10**8, segments=(Segment(decode=1),)),))
    proof = Slots(target=1, scale=1, prices=(SlotPrices(device=(1,)),), states=1, tries=1)
    with pytest.raises(InvalidCertificate, match="requests have too many options"):
        proof.value(huge, "makespan")


def test_the_values_of_many_slots_are_counted():
    short = Request(id="R1", prompt=300, segments=(Segment(decode=1),))
    instance = Instance(machine=Machine(memory=301, batch_tokens=1), requests=(short,))
    proof = Slots(target=60_000, scale=1, prices=(SlotPrices(device=(1,)),), states=1, tries=1)
    search = SlotSearch(LocalGraphs(instance, "makespan"), 60_000, 1, Budget(work=3 * 10**7))
    search.add(proof.prices[0].vector())
    with pytest.raises(InvalidCertificate, match="the values of states would take too long to check"):
        search.run(proof.states, proof.tries)


def test_states_are_found_by_their_keys_where_hashes_collide():
    keys = np.array([*np.ndindex(4, 4, 4)], np.int32)
    table = np.full(128, -1, np.int32)
    for i, key in enumerate(keys):
        place = find(keys, table, key)
        assert table[place] == -1
        table[place] = i
    assert [table[find(keys, table, key)] for key in keys] == [*range(64)]
