"""INFERMAX's schedulers and the references, batch by batch by hand; Figure 1's rule against its plain statement."""

import random

import pytest

from heuristics import get_policy, run_policy, trace_policy
from heuristics.policies.figure_1 import Fcfs, MarsOrder, RandomOrder, Sjf, SjfApi
from heuristics.policies.rank import RankAsReleased
from kvcore.metrics import completions
from tests.heuristics.test_compression import serving, short_of
from tests.heuristics.test_policies_today import request
from tests.heuristics.test_policies_today import serving as instance
from tests.support.drawer import crowded_instance
from tests.support.few import few
from workloads.builtin import builtin_instance


# --- Table 1 -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["vllm", "sarathi", "sarathi-c", "sarathi-nocp", "vllm-hy", "sarathi-nohy"])
def test_an_eviction_free_variant_never_evicts(name):
    """So it also runs where the machine does not evict; its row of the table evicts in some of these."""
    free, rows = get_policy(f"{name}-ef"), get_policy(name)
    evictions = 0
    for seed in few(range(60), 6):
        given = serving(seed)
        schedule = run_policy(given, free)
        evictions += sum(len(batch.drop) for batch in run_policy(given, rows).batches)
        fixed = given.replace(machine=given.machine.replace(evict=False))
        assert run_policy(fixed, free).batches == schedule.batches
    assert evictions > 25


# --- one order for running and waiting requests ------------------------------------------------------------------
@pytest.mark.parametrize("name", ["rank-org-as-released", "rank-o-as-released"])
def test_a_rank_as_released_does_not_ask_all_that_wait(name, monkeypatch):
    """Once all that come after one that waits are evicted, only those that fit in what is free are asked."""
    asked, ask = [0], RankAsReleased._let_in

    def counted(self, *of):
        asked[0] += 1
        return ask(self, *of)

    monkeypatch.setattr(RankAsReleased, "_let_in", counted)
    draw = random.Random(5)
    requests = [request(f"R{i}", draw.randint(1, 30), draw.randint(1, 40), i) for i in range(80)]
    made = trace_policy(instance(150, *requests), get_policy(name))
    assert sum(move.kind == "drop" for one in made.requests for move in one.moves) > 80
    assert asked[0] < 3 * len(made.schedule.batches)


# --- references --------------------------------------------------------------------------------------------------
def mc_sf_by_definition(given):
    """Batch by batch: try the shortest first, and walk through all batches to come; unit batches, nobody stops."""
    left = sorted(given.requests, key=lambda r: (r.output, r.arrival, given.index[r.id]))
    active = {}
    ends = {}
    now = 0
    while len(ends) < len(given.requests):
        for candidate in [r for r in left if r.arrival <= now]:
            trial = [*active.values(), (now, candidate)]
            horizon = range(now, max(start + r.output for start, r in trial))
            loads = [sum(r.prompt + t - s for s, r in trial if s <= t < s + r.output) for t in horizon]
            if max(loads) > (given.machine.memory or 0):
                break
            active[candidate.id] = now, candidate
            left.remove(candidate)
        now += 1
        for id, (start, r) in list(active.items()):
            if start + r.output == now:
                ends[id] = now
                del active[id]
    return ends


def test_mc_sf_is_what_its_definition_says():
    """In the theory's model: unit batches without budgets, and no machine that evicts or pauses."""
    draw = random.Random(7)
    for seed in few(range(120), 6):
        if seed < 40:
            given = builtin_instance(f"hindsight:n={draw.randint(2, 14)},M=30,seed={seed}")
        else:
            requests = [
                request(f"R{i}", draw.randint(1, 9), draw.randint(1, 15), draw.choice([0, draw.randint(0, 30)]))
                for i in range(draw.randint(2, 15))
            ]
            given = instance(draw.choice([24, 40, 70]), *requests, evict=False, pause=bool(seed % 2))
        assert completions(trace_policy(given, get_policy("mc-sf"))) == mc_sf_by_definition(given), seed


def test_a_random_order_is_drawn_once_and_from_its_seed():
    given = instance(6, *(request(f"R{i}", 2, 4) for i in range(6)), batch_requests=1)
    ends = [completions(trace_policy(given, get_policy(name))) for name in ("random", "random", "random:0", "random:7")]
    assert ends[0] == ends[1] == ends[2]
    assert sorted(ends[0].values()) == sorted(ends[3].values()) == [4, 8, 12, 16, 20, 24]  # one after another
    assert ends[0] != ends[3]


# --- Figure 1's rule, repeated where nothing changes -----------------------------------------------------------------
def scarce(seed):
    """Up to 40 requests in the memory of a few, all handlings, tight budgets and hosts, on machines that pause."""
    draw = random.Random(seed)
    given = crowded_instance(seed, 40) if seed % 2 else serving(seed)
    if seed % 2 == 0:  # three of each, at times close to one another, and calls of all handlings
        requests = with_handlings(given, draw)
        three = (
            r.replace(id=f"{r.id}-{k}", arrival=r.arrival + draw.randint(0, 9)) for r in requests for k in range(3)
        )
        given = given.replace(requests=tuple(three))
    machine = given.machine
    largest = max(-(-request.peak // machine.block) for request in given.requests) * machine.block
    memory = draw.choice([machine.memory, largest, largest + draw.randint(0, 2 * largest)])
    budget = draw.choice([machine.batch_tokens, machine.batch_tokens, None])
    return given.replace(
        machine=machine.replace(memory=memory, batch_tokens=budget, pause=True, hybrid=draw.random() < 0.9)
    )


def with_handlings(given, draw):
    """Return the requests, their calls handled at random, and no swap that the host cannot hold."""
    handlings = ["preserve", "discard", "free"] + ["swap"] * (given.machine.host_memory is None)
    return given.with_calls(lambda call: call.replace(handling=draw.choice(handlings))).requests


@pytest.mark.parametrize("policy", [Fcfs, Sjf, SjfApi, MarsOrder, RandomOrder])
def test_repeated_batches_are_those_that_would_be_decided(policy):
    """On scarce and on ample memory, with all switches and handlings; some are repeated although others could work."""
    seeds, repeated, waited = few(range(300), 30), 0, 0
    for seed in seeds:
        small = serving(seed)
        ample = small.replace(machine=small.machine.replace(memory=3 * (small.machine.memory or 0)))
        for given in (small, ample, crowded_instance(seed), crowded_instance(seed, 25)) * (seed < 40):
            repeated += any(batch.repeat > 1 for batch in short_of(given, policy()).schedule.batches)
        given = scarce(seed)
        fast = short_of(given, policy())
        ends = {request.request.id: request.completion for request in fast.requests}
        waited += sum(
            batch.repeat > 1 and len(batch.work) < sum(r.arrival <= batch.start < ends[r.id] for r in given.requests)
            for batch in fast.schedule.batches
        )
    assert repeated > 15
    assert waited > 5 * len(seeds), waited
