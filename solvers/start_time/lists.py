"""Schedules by hand: each request at the earliest start that fits, in some order."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from solvers.start_time.prices import Mask
from solvers.start_time.problem import Problem, Starts


class Board:
    """What is free of every limit at every tick, and where requests of each kind fit."""

    def __init__(self, problem: Problem) -> None:
        self.kinds = problem.kinds
        self.uses = [uses for _, uses in problem.limits]
        ticks = 2 * sum(kind.count * kind.length for kind in self.kinds) + 100  # more than delays can ever use
        ticks += max(kind.release for kind in self.kinds)
        self.free = [np.full(ticks, limit) for limit, _ in problem.limits]
        self.views = [
            [np.lib.stride_tricks.sliding_window_view(free, kind.length) for kind in self.kinds] for free in self.free
        ]
        """By limit and kind, what is free from each start on: windows into `free`, which follow its changes."""

    def move(self, kind: int, start: int, sign: int) -> None:
        """Put a request of this kind at `start` (sign -1) or take it away (sign 1)."""
        for free, uses in zip(self.free, self.uses, strict=True):
            free[start : start + len(uses[kind])] += sign * uses[kind]

    def fits(self, kind: int, begin: int, end: int) -> Mask:
        """Return at which starts from `begin` to `end` - 1 a request of this kind fits."""
        fits: Mask = np.all(self.views[0][kind][begin:end] >= self.uses[0][kind], axis=1)
        for views, uses in zip(self.views[1:], self.uses[1:], strict=True):
            fits &= (views[kind][begin:end] >= uses[kind]).all(axis=1)
        return fits

    def earliest(self, kind: int) -> int:
        """Return the first start at which a request of this kind fits."""
        begin, window = self.kinds[kind].release, 32
        while True:
            fits = self.fits(kind, begin, begin + window)
            place = int(fits.argmax())
            if fits[place]:
                return begin + place
            begin, window = begin + window, 2 * window


Jobs = list[tuple[int, int]]
"""Pairs (kind, start), one per request."""


class Lists:
    """List schedules."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.all_requests = [k for k, kind in enumerate(problem.kinds) for _ in range(kind.count)]

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
        by_volume = sorted(self.all_requests, key=lambda k: kinds[k].release + sum(kinds[k].load) / kinds[k].rate)
        return self.build(by_volume)

    def starts(self, jobs: Jobs) -> Starts:
        """Name the requests."""
        starts: Starts = {}
        for k, kind in enumerate(self.problem.kinds):
            ticks = sorted(start for kind_of, start in jobs if kind_of == k)
            starts.update(zip(kind.ids, ticks, strict=True))
        return starts

    def _shift(self, board: Board, jobs: Jobs) -> Jobs:
        """Move each request, in order of start, to its earliest fit."""
        shifted = []
        for kind, start in sorted(jobs, key=lambda job: job[1]):
            earlier = start
            if start > board.kinds[kind].release:
                board.move(kind, start, 1)
                earlier = board.earliest(kind)
                board.move(kind, earlier, -1)
            shifted.append((kind, earlier))
        return shifted
