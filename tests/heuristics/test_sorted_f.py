"""Sorted-F by hand, and against all sets."""

import random
from fractions import Fraction
from itertools import combinations

from heuristics.policies import sorted_f
from heuristics.policies.sorted_f import least_f
from tests.support.few import few


def least_by_definition(outputs, held, memory):
    """F and size of the best of all feasible sets, the largest of equal ones."""
    places = range(len(outputs))
    sets = [x for k in range(1, len(outputs) + 1) for x in combinations(places, k) if fits(x, outputs, held, memory)]
    return min((Fraction(sum(outputs[i] for i in x), len(x) ** 2), -len(x)) for x in sets)


def fits(some, outputs, held, memory):
    ticks = range(1, max(outputs) + 1)
    return all(sum(held[i] + t for i in some if outputs[i] >= t) <= memory for t in ticks)


def test_the_sets_have_the_least_f_of_all():
    draw = random.Random(1)
    for seed in few(range(150)):
        count = draw.randint(1, 7)
        outputs = sorted((draw.randint(1, 9) for _ in range(count)), reverse=True)
        held = [draw.randint(0, 6) for _ in range(count)]
        memory = draw.randint(max(map(sum, zip(outputs, held, strict=True))), 40)
        best = least_f(outputs, held, memory)
        assert fits(best, outputs, held, memory), seed
        f, size = Fraction(sum(outputs[i] for i in best), len(best) ** 2), len(best)
        assert (f, -size) == least_by_definition(outputs, held, memory), seed
        assert [outputs[i] for i in best] == sorted(outputs[i] for i in best)


def test_few_sets_are_looked_at(monkeypatch):
    """A good set is found first, and what cannot be as good is left out: of 60 requests, 2,310 sets are kept at all."""
    looked, keep = [0], sorted_f.undominated

    def counted(sets):
        looked[0] += sets.shape[1]
        return keep(sets)

    monkeypatch.setattr(sorted_f, "undominated", counted)
    draw = random.Random(0)
    outputs = sorted((draw.randint(100, 900) for _ in range(60)), reverse=True)
    assert len(least_f(outputs, [draw.randint(100, 4000) for _ in outputs], 60_000)) == 32
    assert looked[0] < 5_000
