"""Every full block of a context on its path: what was shared stays shared, and its own KV can be reused."""

import random
from contextlib import suppress

from kvcore import CostFunction, measures, verify_schedule
from tests.support.build import batch, instance, request, schedule
from tests.support.contents import nodes, shared, with_contents
from tests.support.drawer import tiny_instance
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from workloads.own import own


def blocks(on, i):
    return [(part.node, k) for part in on.parts[i] for k in range(part.blocks)]


def test_contexts_branch_where_the_shared_part_ends():
    on = shared(request("A", 5, 1, path=("own-0", 2)), request("B", 4, 3, path=("own-0", 3)), request("C", 2, 1),
                tree=(("own-0", None, 3),))  # fmt: skip
    made = own(on)
    assert made.contents == nodes(("own-0", None, 2), ("own-2", "own-0", 3), ("own-1", "own-0", 4), ("own-4", None, 2))
    assert [each.path for each in made.requests] == [("own-2", 3), ("own-1", 4), ("own-4", 2)]


def test_what_was_shared_is_shared_and_nothing_else():
    for seed in range(60):
        on = with_contents(random.Random(seed), tiny_instance(seed, requests=3))
        made = own(on)
        for i, one in enumerate(on.requests):
            assert len(blocks(made, i)) == one.peak // on.machine.block
            for j in range(i):
                common = set(blocks(made, i)) & set(blocks(made, j))
                assert len(common) == len(set(blocks(on, i)) & set(blocks(on, j)))
        assert own(made) == made


def test_a_request_that_lost_its_kv_reuses_it():
    on = own(instance(request("A", 3, 3), request("B", 1, 1), evict=True, cost=(CostFunction(tokens=1),)))
    found = verify_schedule(on, schedule(
        on, batch(0, A=3), batch(3, {"A": 3}, B=1), batch(4, A=1).replace(reuse={"A": 3}), batch(5, A=1)))  # fmt: skip
    assert (measures(found)["tokens_reused"], measures(found)["tokens_processed"]) == (3, 6)


def test_the_optimum_is_no_worse_than_without():
    compared = better = 0
    for seed in range(30):
        on = tiny_instance(seed, requests=2, evict=True, calls=(0, 1), memory=("largest", "between"))
        with suppress(TooManyStates):
            best = exhaustive_optimum(own(on), "makespan", max_states=150)[0]
            without = exhaustive_optimum(on, "makespan", max_states=150)[0]
            assert best <= without
            compared, better = compared + 1, better + (best < without)
    assert compared > better > 0
