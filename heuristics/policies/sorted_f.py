"""Sets of the least output over size squared first, started where memory never overflows at an end to come."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.policies.mc_sf import McSf
from kvcore.instance import LIMIT

Outputs = NDArray[np.int64]
MOST = 100
"""Requests among which a set is chosen."""


class ChosenSet(NamedTuple):
    """Requests chosen for a set: what they hold at first, what they generate, the last of them, and those before."""

    held: int
    outputs: int
    last: int
    before: ChosenSet | None

    def chosen(self) -> Iterator[int]:
        """Yield the places of the requests, the shortest output first."""
        choice: ChosenSet | None = self
        while choice is not None and choice.last >= 0:
            yield choice.last
            choice = choice.before


class SortedF(McSf):
    """Waiting requests start set after set; running requests go on.

    F of a set X of requests is the sum of their outputs over |X|^2, and X is feasible if all of X, started together,
    fit at every end. A feasible set of least F (of equal ones the largest) starts first, shortest output first; then
    the next is chosen among those that wait. Within a set requests start as in `mc-sf`, up to the first that would let
    memory overflow at an end to come. The output of a request with calls is all that is left. With blocks of b > 1
    tokens a set counts b - 1 more of each. A set is chosen among the 100 shortest outputs.

    Guarantee: with at most 100 requests, all there at first, no calls, unit batches and exact predictions, the total
    flow time of the paper's Sorted-F is at most 48 times the least.
    Running time: a set is found exactly, by a dynamic program over the requests from the longest output: O(n k f), with
    n <= 100 requests, of which k fit together, and f <= M pairs of memory and outputs, none better in both. Then as
    `mc-sf`.
    Source: Wang, Ye, Zhou (arXiv 2508.06133): F, the order and the guarantee. How a set is found, the 100 and the order
    with arrivals are our own, and when requests start is MC-SF's: the paper's own second step could not be read.
    """

    name = "sorted-f"
    rule = "sets of the least outputs / size^2 first, each by output, started as in mc-sf; running ones go on"
    source = "Wang, Ye, Zhou (arXiv 2508.06133): Sorted-F; started as in MC-SF"

    def key(self, job: Job) -> tuple[int, int]:
        """Return the place behind those of a set, by the tokens left to generate."""
        return 1, job.remaining + sum(job.demand.decode[job.segment + 1 :])

    def fill_waiting(self, plan: Plan) -> None:
        """Start the requests of a set in order; when all have started, those of the next."""
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
        """Choose the next set, and put it before the others."""
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
    So what matters of a set is its size and what it holds at first. One that generates too much for any set of which
    it is the longest part to have the F of the best set of shortest outputs is left out.
    """
    most, fewest = _target(outputs, held, memory), np.array([0, *accumulate(outputs[::-1])])
    fronts: list[list[ChosenSet]] = [[ChosenSet(0, 0, -1, None)]]
    for i in range(len(outputs)):
        fronts.append([])
        for size in range(len(fronts) - 1, 0, -1):
            if size >= len(most):
                continue
            room, more_to_come = memory - size * outputs[i] - held[i], min(len(outputs) - i, len(most) - size)
            limit = int((most[size : size + more_to_come] - fewest[:more_to_come]).max()) - outputs[i]
            more = [
                ChosenSet(c.held + held[i], c.outputs + outputs[i], i, c)
                for c in fronts[size - 1]
                if c.held <= room and c.outputs <= limit
            ]
            if more:
                fronts[size] = undominated(fronts[size] + more)
        if not fronts[-1]:
            fronts.pop()
    sizes = (size for size in range(len(fronts) - 1, 0, -1) if fronts[size])
    best = min(sizes, key=lambda k: Fraction(fronts[k][-1].outputs, k * k), default=0)
    return list(fronts[best][-1].chosen())


def _target(outputs: list[int], held: list[int], memory: int) -> Outputs:
    """Return, by size, the most that a set generates with the F of the best that has only shortest outputs.

    No set is larger than the last size.
    """
    ends, sizes = np.array(outputs), np.arange(1, len(outputs) + 1)
    largest = np.count_nonzero(np.cumsum(np.sort(held)) + sizes * min(outputs) <= memory)
    feasible = [k for k in range(1, largest + 1) if np.all(np.cumsum(held[-k:]) + sizes[:k] * ends[-k:] <= memory)]
    values = [Fraction(sum(outputs[-k:]), k * k) for k in feasible]
    most = [LIMIT * k if not values else min(LIMIT * k, int(min(values) * k * k)) for k in range(largest + 1)]
    return np.array(most, dtype=np.int64)


def undominated(choices: list[ChosenSet]) -> list[ChosenSet]:
    """Return those than which none holds less and generates less; the last generates least."""
    kept: list[ChosenSet] = []
    for choice in sorted(choices, key=lambda c: (c.held, c.outputs)):
        if not kept or choice.outputs < kept[-1].outputs:
            kept.append(choice)
    return kept
