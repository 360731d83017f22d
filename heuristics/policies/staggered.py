"""Staggered starts, so that requests do not all end at once."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate, pairwise, repeat
from math import sqrt
from typing import ClassVar

from heuristics.engine.plan import Plan
from heuristics.engine.policy import Point, Setting, Tuning
from heuristics.engine.unified import Unified
from heuristics.engine.view import View
from heuristics.policies.mc_sf import McSf
from kvcore.cost import OwnCost
from kvcore.instance import LIMIT

GENERATIONS = 4  # so many outputs before the end, the rate of starts is taken for steady
SLACK = 0.75  # of the saw-tooth's height a plan leaves free, so that the last fit although groups wait


def near(point: Point, step: float) -> Iterator[Point]:
    """Yield other gaps for a size, and other sizes with as many requests at a time."""
    (size, gap), more = map(int, point), round(step)
    for other in (
        (size, gap + more),
        (size, gap - more),
        *((n, round(gap * n / size)) for n in (size + more, size - more)),
    ):
        if min(other) >= 1:
            yield other


class Staggered(McSf):
    """Groups of at most B requests, at least G batches apart, as early as memory allows; started ones go on.

    Order and memory test are those of mc-sf. Requests of different ages peak at different times, so more fit than in
    waves.

    Without B and G they follow from the requests that wait at first, their mean prompt s and output o. In a steady
    state the memory M is a saw-tooth of height B o around a mean. With f = `busy` + `any_decode` and p = `any_prefill`,
    the empty part costs f o (s + o / 2) / M * B o / (2 M) a request, and the prefills p / B: least at B = (M / o)
    sqrt(2 p / (f (s + o / 2))), as far as one batch takes their prefills. The last M / (s + o) start together, so that
    memory is full to the end; before them it stays full if those that end in a batch give back what the running and
    starting ones take.

    Running time: that of mc-sf.
    Source: this project.
    """

    size: int = 0
    gap: int = 1
    settings: ClassVar[dict[str, Setting]] = {
        "size": Setting("B, the most requests of a group (0: it finds B and G itself)", least=1, most=10**9),
        "gap": Setting("G, the batches between two groups at least", least=1, most=10**9),
    }

    tuning: ClassVar = Tuning(8.0, 1.2, near=near)

    def __init__(self, size: int = 0, gap: int = 1) -> None:
        self.name = f"staggered:{size},{gap}" if size else "staggered"
        self.size, self.gap = size, gap

    def start(self, view: View) -> None:
        super().start(view)
        self.cost = view.cost
        self._next = 0  # the first batch in which requests may start
        self._groups: Iterator[tuple[int, int]] | None = None  # sizes, and how long after each the next one starts

    def fill_waiting(self, plan: Plan) -> None:
        if not self.waiting or (plan.work and self._batch < self._next):
            return
        if self._groups is None:
            self._groups = repeat((self.size, self.gap)) if self.size else iter(self._planned())
            self._group = next(self._groups)
        size, gap = self._group
        later, self.waiting = self.waiting[size:], self.waiting[:size]
        before = len(self.waiting)
        super().fill_waiting(plan)
        if len(self.waiting) < before:
            self._next = self._batch + gap
            self._group = next(self._groups, (LIMIT, 1))
        self.waiting += later

    def _planned(self) -> list[tuple[int, int]]:
        jobs, memory = [entry.job for entry in self.waiting], self.machine.memory
        number, together = len(jobs), self.machine.prefill_limit
        if memory is None:
            return [(number, 1)]
        output = sum(job.remaining for job in jobs) / number
        prompt = sum(job.known for job in jobs) / number
        functions = () if isinstance(self.cost, OwnCost) else self.cost.functions
        fixed = max((float(f.busy + f.any_decode) / f.divisor for f in functions), default=0.0)
        prefill = max((float(f.any_prefill) / f.divisor for f in functions), default=0.0)
        best = memory / output * sqrt(2 * prefill / (fixed * (prompt + output / 2))) if fixed else number
        size = max(1, min(round(best), number if together is None else int(together / prompt), number))
        ends = [*accumulate(rates(number, prompt, round(output), max(1.0, memory - SLACK * size * output)))]
        starts = [bisect_left(ends, k + size / 2) for k in range(0, number, size)]
        return [(size, max(1, after - start)) for start, after in pairwise([*starts, starts[-1] + 1])]

    def steady(self, view: View, plan: Plan) -> int:
        apart = self._next - self._batch
        return min(apart, Unified.steady(self, view, plan)) if apart > 0 else super().steady(view, plan)


def rates(number: int, prompt: float, output: int, memory: float) -> list[float]:
    """Return how many requests start in each batch, so that memory is full as early and as long as may be.

    Four outputs before the last start the rate counts as steady.
    """
    found = [memory / (prompt + output)]
    running = total = found[0]
    while total < number:
        ended = found[-output] if len(found) >= output else 0.0
        if len(found) < GENERATIONS * output:
            rate = (running + prompt * ended) / (prompt + output)
        found.append(rate)
        total += rate
        running += rate - ended
        if len(found) == GENERATIONS * output:
            rate = running / output
    return found[::-1]
