"""The best-first search over labels, on paths through a random grid: what it finds, where it stops, what it keeps."""

import random
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core.caching import NullCache

from bounds.traced import path
from kvcore.certificates import labels as core
from kvcore.certificates.labels import EMPTY, FOUND, FREE, FULL, HEAP, NO, ROWS, TARGET, TIRED
from tests.support.plain import LABELS, plain

DEPTH, WIDTH = 6, 4


class Steps(NamedTuple):
    """What a step costs, and takes of a budget that a path has: [steps, from, to]."""

    cost: Any
    taken: Any
    budget: int
    ahead: Any  # the least cost from [steps, place] on


class Paths(NamedTuple):
    labels: core.Labels
    place: Any
    cost: Any
    taken: Any


def use(labels, jit):
    """Return the search over paths, with `labels` compiled or not."""

    @jit
    def covers(p, f, one, other):
        x, is_there = f.labels, f.place[one] == f.place[other]
        return (
            x.left[one] == x.left[other]
            and is_there
            and f.cost[one] <= f.cost[other]
            and f.taken[one] <= f.taken[other]
        )

    @jit
    def least(p, f, at):
        return f.cost[at] + p.ahead[DEPTH - f.labels.left[at], f.place[at]]

    add = labels.adding(covers, least)

    @jit
    def expand(p, f, at):
        x, step = f.labels, DEPTH - f.labels.left[at]
        for to in range(WIDTH):
            if labels.is_tired(x):
                return TIRED
            new = x.count[FREE]
            f.place[new], f.cost[new] = to, f.cost[at] + p.cost[step, f.place[at], to]
            f.taken[new] = f.taken[at] + p.taken[step, f.place[at], to]
            x.left[new], x.key[new] = x.left[at] - 1, labels.mixed(step, to)
            if f.taken[new] <= p.budget:
                code = add(p, f, at)
                if code != EMPTY:
                    return code
        return EMPTY

    return labels.searching(expand)


def drawn(seed):
    """Return random steps; `ahead` is exact but for the budget, or nothing is known."""
    draw = random.Random(seed)
    cost, taken = (np.array([[[draw.randint(0, 9) for _ in range(WIDTH)] for _ in range(WIDTH)] for _ in range(DEPTH)])
                   for _ in range(2))  # fmt: skip
    ahead = np.zeros((DEPTH + 1, WIDTH), np.int64)
    for step in reversed(range(DEPTH)):
        ahead[step] = (cost[step] + ahead[step + 1]).min(axis=1)
    return Steps(cost, taken, draw.randint(0, 30), ahead * (seed % 2))


def optimum(p):
    """Return the least cost within the budget by dynamic programming (None: no path)."""
    best = {(0, 0): 0}
    for step in range(DEPTH):
        after = {}
        for (place, taken), cost in best.items():
            for to in range(WIDTH):
                key = to, taken + int(p.taken[step, place, to])
                if key[1] <= p.budget:
                    after[key] = min(after.get(key, 10**9), cost + int(p.cost[step, place, to]))
        best = after
    return min(best.values(), default=None)


def begun(p, target=10**6, rows=400):
    """Return labels with the start alone."""
    f = Paths(core.room(rows), *(np.zeros(rows + 1, np.int64) for _ in range(3)))
    f.labels.left[0], f.labels.bound[0] = DEPTH, p.ahead[0, 0]
    core.begin(f.labels, target)
    return f


def never():
    return False


PLAIN = use(plain(LABELS), lambda function: function)


def test_the_search_ends_with_the_optimum_and_its_path():
    ends = []
    for seed in range(100):
        p = drawn(seed)
        f, best = begun(p), optimum(p)
        end = core.run(PLAIN, p, f, 400, never)
        ends.append(end.code)
        assert (end.code, end.bound) == ((EMPTY, 10**6) if best is None else (FOUND, best))
        below = core.run(PLAIN, p, begun(p, best or 5), 400, never)
        assert (below.code, below.bound, below.is_over) == (EMPTY, best or 5, True)
        if best is not None:
            rows = path(f.labels, int(f.labels.heap[0]))
            places = f.place[rows].tolist()
            assert sum(p.cost[step, places[step], places[step + 1]] for step in range(DEPTH)) == best
            assert f.labels.left[rows].tolist() == list(range(DEPTH, -1, -1))
    assert {EMPTY, FOUND} == set(ends)


def test_nothing_is_below_what_is_reached_wherever_it_stops():
    stopped = set()
    for seed in range(100):
        p = drawn(seed)
        f, best, last = begun(p), optimum(p), 0
        for most in (1, 2, 3, 5, 9, 20, 60, 400):
            end = core.run(PLAIN, p, f, most, never)
            assert last <= end.bound <= (10**6 if best is None else best)
            at_once = core.run(PLAIN, p, begun(p), most, never)
            assert (at_once.code, at_once.bound) == (end.code, end.bound)
            assert end.labels <= most
            last = end.bound
            stopped.add(end.code)
        assert last == (10**6 if best is None else best)
    assert {FULL, FOUND} <= stopped


def test_too_many_tries_and_a_pause_stop_it():
    p = drawn(1)
    f = begun(p)
    assert core.run(PLAIN, p, f, 400, lambda: True).bound == p.ahead[0, 0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "TRIES", 0)
        assert core.run(PLAIN, p, f, 1, never).code == TIRED
    assert core.run(PLAIN, p, f, 400, never).bound == optimum(p)


def test_rows_of_labels_that_others_cover_are_used_again():
    """Each row is the free one, or that of one label; labels of a chain have one place in `heads`, covering none."""
    freed = 0
    for seed in range(100):
        p = drawn(seed)
        f = begun(p)
        for most in range(1, 60):
            core.run(PLAIN, p, f, most, never)
            x = f.labels
            rows = set(range(int(x.count[ROWS]) + 1)) - {int(x.count[FREE])}
            heap = x.heap[: int(x.count[HEAP])].tolist()
            assert len(set(heap)) == len(heap)
            assert set(heap) <= rows
            assert [int(x.place[row]) for row in heap] == list(range(len(heap)))
            assert {row for row in rows if x.is_open[row]} <= set(heap)
            freed += x.count[FREE] < x.count[ROWS]
    assert freed > 0


def test_compiled_it_does_the_same():
    numba = pytest.importorskip("numba", reason="numba is not installed")
    search = use(core, numba.njit)
    search._cache = NullCache()  # what is kept is known by the packages alone
    for seed in range(30):
        p, ends = drawn(seed), []
        for each in (PLAIN, search):
            f = begun(p)
            ends.append((core.run(each, p, f, 25, never), core.run(each, p, f, 400, never), f.labels.count.tolist()))
        assert ends[0] == ends[1]
        assert ends[0][1].bound == (10**6 if optimum(p) is None else optimum(p))


@pytest.mark.parametrize("wrong", [
    lambda p, f, one, other: f.cost[one] <= f.cost[other] and f.labels.left[one] == f.labels.left[other],
    lambda *_: True,
])  # fmt: skip
def test_labels_that_cover_too_much_lose_the_optimum(wrong):
    """Planted: of two paths the cheaper one covers, whatever it took of the budget."""
    labels = plain(LABELS)
    right = labels.adding
    labels.adding = lambda covers, least: right(wrong, least)
    search = use(labels, lambda function: function)
    cases = [drawn(seed) for seed in range(60)]
    assert any(core.run(search, p, begun(p), 400, never).bound != (optimum(p) or 10**6) for p in cases)


def test_a_lower_target_leaves_out_what_reaches_it():
    p = drawn(2)
    f = begun(p)
    f.labels.count[TARGET] = 1
    assert core.run(PLAIN, p, f, 400, never).bound == 1
    assert f.labels.parent[0] == NO
