"""Which instances are rigid; certificates of their configurations: never above the optimum, and refused where wrong."""

import numpy as np
import pytest

from kvcore.certificates import Configurations, InvalidCertificate
from kvcore.certificates.budget import Budget
from kvcore.certificates.running import Running, TooMany
from kvcore.rigid import RIGID as TAKEN
from kvcore.rigid import kinds_of, memory_of, too_large
from tests.support.build import instance as make
from tests.support.build import request
from tests.support.exhaustive import exhaustive_optimum
from tests.support.rigid import RIGID, rigid, running_sets
from workloads.builtin import builtin_instance

FLOW = "total-flow-time"
OBJECTIVES = (FLOW, "weighted-flow-time", "total-ttft")


def random_proof(instance, objective, draw, memory=True):
    """Return random prices in quarters: requests in or out of the network, memory dear at some ticks."""
    price = {
        kind.ids[0]: draw.choice((None, draw.randint(-4, 60) * kind.rate)) for kind in kinds_of(instance, objective)
    }
    first = {id: kind.ids[0] for kind in kinds_of(instance, objective) for id in kind.ids}
    return Configurations(
        scale=4,
        memory=tuple(draw.choice((0, 0, 1, 3)) for _ in range(draw.randint(0, 12) * memory)),
        starts=tuple(price[first[r.id]] for r in instance.requests),
    )


def test_the_configurations_are_those_that_can_run_at_once():
    for seed in range(40):
        instance = rigid(seed, requests=(2, 4), budgets=False)
        kinds = kinds_of(instance, FLOW)
        memory = memory_of(instance, kinds)
        running = Running(kinds, memory, 10_000, Budget())
        expected = sum(1 for _ in running_sets(kinds, memory))
        assert len(running.base) + len(running.later) == expected
        with pytest.raises(TooMany):
            Running(kinds, memory, expected - 1, Budget())


def test_a_bound_solved_by_hand():
    # Two requests of prompt 2 and output 2 need 2 and 3 tokens; with 4 they can never overlap: 2 + 4 ticks.
    instance = make(request("A", 2, 2), request("B", 2, 2), memory=4, **RIGID)
    assert Configurations(memory=(), starts=(2, 2)).value(instance, FLOW) == 4
    assert Configurations(memory=(), starts=(4, 4)).value(instance, FLOW) == 8 - 2
    assert Configurations(memory=(), starts=(None, None)).value(instance, FLOW) == 4


def test_memory_prices_are_paid_by_requests_outside():
    instance = make(request("A", 2, 1), request("B", 2, 1), request("C", 1, 1), memory=2, **RIGID)
    proof = Configurations(scale=2, memory=(2, 1), starts=(None, None, None))
    # In halves: A and B pay 2 + 4, 4 + 2 or 6 at least 6; C pays 2 + 2 at least; all memory costs 2 * 3.
    assert proof.value(instance, FLOW) == (6 + 6 + 4 - 6) // 2
    assert exhaustive_optimum(instance, FLOW)[0] == 6


@pytest.mark.parametrize(("proof", "why"), [
    ({"starts": (3,)}, "prices for 1 requests, not 3"),
    ({"starts": (3, 4, 0)}, "alike must have the same price; A has another"),
    ({"starts": (3, None, 0)}, "alike must have the same price"),
    ({"starts": (10**15, 10**15, 0)}, "too large"),
    ({"starts": (0, 0, 0), "memory": (10**15,), "scale": 10**6}, None),
    ({"starts": (10**9, 10**9, 0)}, "too many to look at"),
])  # fmt: skip
def test_prices_that_make_no_sense_are_refused(proof, why):
    instance = make(request("A", 2, 2), request("B", 2, 2), request("C", 1, 1), memory=4, **RIGID)
    made = Configurations(**({"memory": ()} | proof))
    if why is None:
        assert made.value(instance, FLOW) < 0
        return
    with pytest.raises(InvalidCertificate, match=why):
        made.value(instance, FLOW)


def test_instances_that_are_not_rigid_or_too_large_are_refused(monkeypatch):
    chunked = make(request("A", 2, 2), memory=4, **(RIGID | {"chunked": True}))
    with pytest.raises(InvalidCertificate, match="configurations is not proved with chunked"):
        Configurations(memory=(), starts=(None,)).value(chunked, FLOW)
    monkeypatch.setattr("kvcore.certificates.budget.Most.configurations", 100_000)
    large = builtin_instance("hindsight:n=60,M=200,P=50,seed=0")
    with pytest.raises(InvalidCertificate, match="too much can run together"):
        Configurations(memory=(), starts=(100,) * 60).value(large, FLOW)


@pytest.mark.parametrize("price", [20, 10_000])
def test_an_instance_made_to_take_long_is_refused(price):
    # 60 requests of one token each, that fit together in millions of ways, all of which start at once.
    many = make(*[request(f"R{i}", 1 + i % 30, 1) for i in range(60)], memory=150, **RIGID)
    with pytest.raises(InvalidCertificate, match="too much can run together"):
        Configurations(memory=(), starts=(price,) * 60).value(many, FLOW)


@pytest.mark.parametrize("lacking", [{"work": 10**6}, {"memory": 3000}])
def test_a_network_ends_with_its_budget(lacking):
    instance = rigid(1, requests=(4, 4), budgets=False)
    kinds = kinds_of(instance, FLOW)
    memory = memory_of(instance, kinds)
    assert len(Running(kinds, memory, 10_000, Budget()).base)
    with pytest.raises(InvalidCertificate, match=r"what can run together would take too (long|much memory) to check"):
        Running(kinds, memory, 10_000, Budget(**lacking)).cheapest(np.zeros((99, len(kinds))))


def test_requests_in_and_out_of_the_network_share_the_memory():
    instance = builtin_instance("hindsight:n=8,M=14,seed=3")
    kinds = kinds_of(instance, FLOW)
    assert memory_of(instance, kinds) == 14
    out = Configurations(memory=(), starts=(None,) * 8).value(instance, FLOW)
    assert out == sum(r.output for r in instance.requests)


def declined(instance, objective):
    return TAKEN.why_not("rigid", instance, objective)


@pytest.mark.parametrize("why", ["chunked", "evict", "pause", "no hybrid"])
def test_a_machine_that_is_not_rigid_is_refused(why):
    change = {why.removeprefix("no "): not why.startswith("no ")}
    instance = make(request("R1", 1, 2), memory=9, **(RIGID | change))
    assert declined(instance, FLOW) == f"rigid is not proved with {why}"


def test_calls_arrivals_and_objectives_that_are_not_rigid_are_refused():
    calls = make(request("R1", 1, (1, 2, 0, "preserve"), 1), memory=9, **RIGID)
    arrivals = make(request("R1", 1, 2), request("R2", 1, 2, arrival=1), memory=9, **RIGID)
    tokens = arrivals.replace(machine=arrivals.machine.replace(batch_tokens=2))
    assert "calls and preserve calls" in declined(calls, FLOW)
    assert "arrivals and total-ttft" in declined(arrivals, "total-ttft")
    assert "arrivals and batch_tokens" in declined(tokens, FLOW)
    assert declined(arrivals, FLOW) is None
    assert "makespan" in declined(make(request("R1", 1, 2), memory=9, **RIGID), "makespan")
    assert declined(make(request("R1", 1, 2, arrival=4), memory=9, **RIGID), FLOW) is None


def test_numbers_that_are_too_large_are_refused():
    assert "too large" in too_large(make(request("R1", 1, 1, weight=10**9), memory=9, host_memory=0, **RIGID))
