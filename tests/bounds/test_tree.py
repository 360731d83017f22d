"""What trees are proposed from: compiled paths whose segments end as they must."""

import random

import numpy as np
import pytest

from bounds.lagrangian import Oracle, SlotPricing
from bounds.walks import FAR
from kvcore.certificates.path_kernels import DECODE, HIGH, LOW, PAUSE
from kvcore.certificates.paths import ANY_LATER, NEVER
from kvcore.certificates.prices import ROWS
from tests.support.drawer import PROFILES, tiny_instance
from tests.support.random_proofs import PRICEABLE, random_prices


def narrowed(draw, legs, slots):
    """Some legs with random ends, of which none of the last is later than those that follow allow."""
    legs = legs.copy()
    for leg in legs:
        leg[LOW] = draw.choice([0, draw.randint(0, slots)])
        leg[HIGH] = draw.choice([leg[HIGH], leg[HIGH], draw.randint(0, slots - 1)])
    for before, leg in zip(legs[-2::-1], legs[:0:-1], strict=True):
        before[HIGH] = min(before[HIGH], leg[HIGH] - leg[DECODE] - before[PAUSE])
    return legs


@pytest.mark.parametrize("profile", ["evict", "calls-free", "calls-fixed"])
def test_compiled_ways_end_as_they_must_and_cost_what_the_checker_says(profile):
    allowed = 0
    for seed in range(20):
        draw, instance = random.Random(seed), tiny_instance(seed, **PROFILES[profile] | PRICEABLE)
        prices = random_prices(draw, instance)
        if instance.machine.host_memory == 0:
            prices = prices.replace(host=prices.device)
        oracle = Oracle(SlotPricing(instance, "total-flow-time", apart=True), prices.slots, 1, 1)
        oracle.legs = [narrowed(draw, legs, prices.slots) for legs in oracle.legs]
        rows = np.array([getattr(prices, row.name) or (0,) * prices.slots for row in ROWS]) / prices.scale
        cheapest = prices.paths(instance, "total-flow-time")
        for request, path, legs in zip(instance.requests, oracle.evaluate(rows).paths, oracle.legs, strict=True):
            ends = tuple(
                (low, high if high < prices.slots else ANY_LATER) for low, high in legs[:, [LOW, HIGH]].tolist()
            )
            exact, found = cheapest(request, ends), path.cost + float((path.use * rows).sum())
            if exact >= NEVER:
                assert found >= FAR
                continue
            allowed += 1
            assert found == pytest.approx(exact / prices.scale)
            assert all(low <= end <= high for end, (low, high) in zip(path.ends, ends, strict=True))
    assert allowed > 10
