"""Sorted-F: sets of the least output over size squared first."""

from bisect import bisect_left
from fractions import Fraction
from itertools import accumulate
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.policies.mc_sf import McSf
from kvcore.instance import LIMIT

Tokens = NDArray[np.int64]
MOST = 100  # requests among which a set is chosen


class SortedF(McSf):
    """Sets of the least outputs / size^2 first, each by output, started as in `mc-sf`; running requests go on.

    F of a set X of requests is the sum of their outputs over |X|^2, and X is feasible if all of X, started together,
    fit at every end. A feasible set of least F (of equal ones the largest) starts first, shortest output first; then
    the next is chosen among those that wait. Within a set requests start as in `mc-sf`, up to the first that would let
    memory overflow at an end to come. The output of a request with calls is all that is left. With blocks of b > 1
    tokens a set counts b - 1 more of each. A set is chosen among the 100 shortest outputs.

    Guarantee: with at most 100 requests, all there at first, no calls, unit batches and exact predictions, the total
    flow time of the paper's Sorted-F is at most 48 times the least.
    Running time: O(n k f) for a set, found by an exact dynamic program from the longest output, n <= 100 requests, k of
    them fitting together, and f <= M pairs of memory and outputs, none better in both. Then as `mc-sf`.
    Source: Wang, Ye, Zhou (arXiv 2508.06133): F, the order and the guarantee. How a set is found, the 100 and the order
    with arrivals are our own, and requests start as in MC-SF.
    """

    name = "sorted-f"

    def key(self, job: Job) -> tuple[int, int]:
        return 1, job.remaining + sum(job.demand.decode[job.segment + 1 :])

    def fill_waiting(self, plan: Plan) -> None:
        while self.waiting:
            if self.waiting[0].key[0]:
                self.choose()
            chosen = bisect_left(self.waiting, (1,), key=attrgetter("key"))
            others = self.waiting[chosen:]
            del self.waiting[chosen:]
            super().fill_waiting(plan)
            blocked = bool(self.waiting)
            self.waiting += others
            if blocked:
                return

    def choose(self) -> None:
        """Put the next set before the others."""
        longest_first = self.waiting[:MOST][::-1]
        blocks, block = self.machine.block_limit, self.machine.block
        held = [entry.job.known + block - 2 for entry in longest_first]
        memory = LIMIT if blocks is None else blocks * block
        best = least_f([entry.key[1] for entry in longest_first], held, memory) or [len(held) - 1]
        for k, i in enumerate(best):
            longest_first[i] = longest_first[i]._replace(key=(0, k))
        self.waiting[:MOST] = sorted(longest_first)


def least_f(outputs: list[int], held: list[int], memory: int) -> list[int]:
    """Return a feasible set of least F, the largest of equal ones, shortest output first; empty if there is none.

    Request i holds held[i] + q tokens in the q-th of its outputs[i] batches; the longest come first. Memory peaks at
    the ends. At that of i those chosen before it still run, and those chosen after it count only at ends of their own.
    So a set matters only by its size, its memory at first and its outputs, and one that is no less in the last two than
    another of its size is left out. So is one that does not reach the F of a known set even with the shortest outputs
    to come, as many as fit if those that hold least come.
    """
    most = _target(np.array(outputs), np.array(held), memory)
    coming, size = np.arange(len(most)), np.arange(len(most))[:, None]
    fewest = np.array([0, *accumulate(outputs[::-1])])[coming]
    spare = np.where(size + coming < len(most), most[np.minimum(size + coming, len(most) - 1)] - fewest, -1)
    room = np.maximum.accumulate(spare, axis=1)  # by size: the most that a set may generate, if so many are to come
    sets = np.zeros((4, 1), dtype=np.int64)  # of each: size, what it holds and generates, and its number
    last, before = [-1], [-1]  # by number: the last request of the set, and the set without it
    for i, (output, first) in enumerate(zip(outputs, held, strict=True)):
        more = sets + np.array([[1], [first], [output], [0]])
        more = more[:, (more[0] < len(most)) & (more[1] + more[0] * output <= memory)]
        before += more[3].tolist()
        more[3] = len(last) + np.arange(more.shape[1])
        last += [i] * more.shape[1]
        sets = np.append(sets, more, axis=1)
        least = np.append(0, np.cumsum(np.sort(held[i + 1 :]) + outputs[-1]))[: len(most)]
        others = np.searchsorted(least, memory - sets[1] - sets[0] * outputs[-1], side="right") - 1
        sets = undominated(sets[:, sets[2] <= room[sets[0], others]])
    ends = sets[:, np.diff(sets[0], append=-1) != 0].T.tolist()[::-1]  # of each size what generates least
    *_, number = min((end for end in ends if end[0]), key=lambda end: Fraction(end[2], end[0] ** 2), default=ends[0])
    chosen = []
    while number:
        chosen.append(last[number])
        number = before[number]
    return chosen


def _target(outputs: Tokens, held: Tokens, memory: int) -> Tokens:
    """Return, by size, the most that a set generates with the least F known; no feasible set is larger than the last.

    Known are feasible sets of least output and memory held, weighed in several ways.
    """
    places = np.arange(1, len(held) + 1)

    def overflows(chosen: Tokens) -> bool:
        chosen = np.sort(chosen)
        return bool(np.any(np.cumsum(held[chosen]) + places[: len(chosen)] * outputs[chosen] > memory))

    f = Fraction(LIMIT)
    for price in (0, *2.0 ** np.arange(-4, 5)):
        order = np.argsort(outputs * held.mean() + price * held * outputs.mean())
        size = bisect_left(places, True, key=lambda k: overflows(order[:k]))
        if size:
            made = np.cumsum(outputs[order[:size]])
            best = int(np.argmin(made / places[:size] ** 2))
            f = min(f, Fraction(int(made[best]), (best + 1) ** 2))
    largest = np.count_nonzero(np.cumsum(np.sort(held)) + places * outputs.min() <= memory)
    return np.array([min(LIMIT * k, int(f * k * k)) for k in range(largest + 1)])


def undominated(sets: Tokens) -> Tokens:
    """Return those than which none of the same size holds less and generates less, in order."""
    sets = sets[:, np.lexsort(sets[2::-1])]
    rank = np.unique(sets[2], return_inverse=True)[1] - sets[0] * sets.shape[1]
    return sets[:, np.diff(np.minimum.accumulate(rank), prepend=1) < 0]
