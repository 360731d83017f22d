"""Schedules by hand: each request at the earliest start that fits, in some order, and a local search over that."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from solvers.start_time.problem import Array, Problem, Starts


class Board:
    """What is free of every limit at every tick, and where requests of each kind fit."""

    def __init__(self, problem: Problem) -> None:
        self.kinds = problem.kinds
        self.limits = problem.limits
        ticks = 2 * sum(kind.count * kind.length for kind in self.kinds) + 100  # more than delays can ever use
        ticks += max(kind.release for kind in self.kinds)
        self.free = [np.full(ticks, limit) for limit, _ in self.limits]

    def move(self, kind: int, start: int, sign: int) -> None:
        """Put a request of this kind at `start` (sign -1) or take it away (sign 1)."""
        for free, (_, uses) in zip(self.free, self.limits, strict=True):
            free[start : start + len(uses[kind])] += sign * uses[kind]

    def fits(self, kind: int, ticks: int | None = None) -> npt.NDArray[np.bool_]:
        """Return at which starts (below `ticks`) a request of this kind fits."""
        length = self.kinds[kind].length
        most = len(self.free[0]) - length + 1
        window = most if ticks is None else min(most, ticks)
        fits = np.ones(window, np.bool_)
        for free, (_, uses) in zip(self.free, self.limits, strict=True):
            views = np.lib.stride_tricks.sliding_window_view(free[: window + length - 1], length)
            fits &= (views >= uses[kind]).all(axis=1)
        fits[: self.kinds[kind].release] = False
        return fits

    def earliest(self, kind: int) -> int:
        """Return the first start at which a request of this kind fits."""
        ticks = self.kinds[kind].release + 32
        while True:
            fits = self.fits(kind, ticks)
            place = int(fits.argmax())
            if fits[place]:
                return place
            ticks *= 4


Jobs = list[tuple[int, int]]
"""Pairs (kind, start), one per request."""


class Lists:
    """List schedules and their improvement; deterministic for a seed but for the time limit."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.problem = problem
        self.random = random.Random(seed)
        self.everyone = [k for k, kind in enumerate(problem.kinds) for _ in range(kind.count)]

    def build(self, order: Iterable[int]) -> Jobs:
        """Start requests (given by kind) in this order, each as early as it fits; then move each to the left."""
        board = Board(self.problem)
        jobs = []
        for kind in order:
            start = board.earliest(kind)
            board.move(kind, start, -1)
            jobs.append((kind, start))
        return self._shift(board, jobs)

    def cost(self, jobs: Jobs) -> int:
        """Return the objective of these starts."""
        kinds = self.problem.kinds
        return sum(kinds[k].cost(start) for k, start in jobs)

    def by_area(self) -> Jobs:
        """Return the list schedule in order of block-ticks over rate (smallest volume first)."""
        kinds = self.problem.kinds
        return self.build(sorted(self.everyone, key=lambda k: kinds[k].release + sum(kinds[k].load) / kinds[k].rate))

    def improve(self, jobs: Jobs, seconds: float) -> Jobs:
        """Take out a few requests and put them back, again and again; worse is accepted less and less (annealing)."""
        best = current = jobs
        started, heat = time.monotonic(), 0.004 * self.cost(jobs)
        while (passed := (time.monotonic() - started) / seconds) < 1:
            tried = self._reinsert(current)
            worse = self.cost(tried) - self.cost(current)
            if worse <= 0 or self.random.random() < math.exp(-worse / (heat * (1 - passed) + 1e-9)):
                current = tried
                if self.cost(tried) < self.cost(best):
                    best = tried
        return best

    def starts(self, jobs: Jobs) -> Starts:
        """Name the requests."""
        starts: Starts = {}
        for k, kind in enumerate(self.problem.kinds):
            ticks = sorted(start for kind_of, start in jobs if kind_of == k)
            starts.update(zip(kind.ids, ticks, strict=True))
        return starts

    def _reinsert(self, jobs: Jobs) -> Jobs:
        board = Board(self.problem)
        out = set(self._chosen(jobs))
        left = [job for j, job in enumerate(jobs) if j not in out]
        for kind, start in left:
            board.move(kind, start, -1)
        back = [jobs[j][0] for j in out]
        self.random.shuffle(back)
        for kind in back:
            start = board.earliest(kind)
            if self.random.random() < 0.15:
                start += int(self.random.choice(np.flatnonzero(board.fits(kind, start + 15)[start:]).tolist()))
            board.move(kind, start, -1)
            left.append((kind, start))
        return self._shift(board, left)

    def _chosen(self, jobs: Jobs) -> list[int]:
        """Return up to five positions: at random, or near one another in time."""
        size = self.random.randint(1, min(5, len(jobs)))
        everybody = list(range(len(jobs)))
        if self.random.random() < 0.5:
            return self.random.sample(everybody, size)
        centre = jobs[self.random.choice(everybody)][1]
        return sorted(everybody, key=lambda j: abs(jobs[j][1] - centre) + 8 * self.random.random())[:size]

    def _shift(self, board: Board, jobs: Jobs) -> Jobs:
        shifted = []
        for kind, start in sorted(jobs, key=lambda job: job[1]):
            board.move(kind, start, 1)
            earlier = board.earliest(kind)
            board.move(kind, earlier, -1)
            shifted.append((kind, earlier))
        return shifted


def loads(problem: Problem, jobs: Jobs, ticks: int) -> Array:
    """Return the blocks occupied at each tick, [ticks]."""
    load = np.zeros(ticks, np.int64)
    for kind, start in jobs:
        load[start : start + problem.kinds[kind].length] += problem.kinds[kind].profile
    return load
