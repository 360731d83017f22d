"""Schedules by hand: each request at the earliest start that fits, in some order."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from solvers.start_time.prices import Mask
from solvers.start_time.problem import Jobs, RigidProblem


class Board:
    """What is free of every limit at every tick, and where requests of each kind fit."""

    def __init__(self, problem: RigidProblem) -> None:
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

    def put(self, kind: int) -> int:
        """Put a request of this kind at the first start at which it fits, and return that."""
        begin, window = self.kinds[kind].release, 32
        while not (fits := self.fits(kind, begin, begin + window)).any():
            begin, window = begin + window, 2 * window
        start = begin + int(fits.argmax())
        self.move(kind, start, -1)
        return start


def list_schedule(problem: RigidProblem, order: Iterable[int]) -> Jobs:
    """Start requests (given by kind) in this order, each as early as it fits; then move each to the left."""
    board, jobs = Board(problem), []
    for kind, start in sorted([(kind, board.put(kind)) for kind in order], key=lambda job: job[1]):
        board.move(kind, start, 1)
        jobs.append((kind, board.put(kind)))
    return jobs


def by_area(problem: RigidProblem) -> Jobs:
    """Return the list schedule in order of block-ticks over rate (smallest volume first)."""
    kinds = problem.kinds
    every = [k for k, kind in enumerate(kinds) for _ in range(kind.count)]
    return list_schedule(problem, sorted(every, key=lambda k: kinds[k].release + sum(kinds[k].load) / kinds[k].rate))
