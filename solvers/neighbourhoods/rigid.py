"""Requests that are one block in time: a start each, searched with memory that may be exceeded, then made to fit."""

from __future__ import annotations

import numpy as np

from bounds.prices import machine_prices
from solvers.neighbourhoods.kernels import BEGIN
from solvers.neighbourhoods.soft import JITTER, SHIFT, Cooling, Loads, soften
from solvers.neighbourhoods.tables import Array, Tables

ROOMY = 4
"""With memory for fewer requests at their largest, ends exclude one another, and exact repairs do better."""
MOST_NUMBERS = 2**25
"""Numbers in the table of loads."""
FLOOR = 0.25
"""Of the largest price, what memory costs in the last slot too."""
EARLY = 0.7
"""The share of the moves at prices up to `DEAR[1]`; then they rise to `DEAR[2]`."""
HEAT = 10.0, 0.5, 0.25
DEAR = 1.0, 2.0, 15.0


def is_rigid(tables: Tables) -> bool:
    """Whether a request is one block of memory in time, nothing else is limited, and memory holds several of them."""
    longest = int(tables.segments[:, 1].max())
    return (
        len(tables.segments) == len(tables.arrival)
        and not tables.has_budgets
        and bool(ROOMY * int(tables.peak_blocks.max()) <= tables.limits[0])
        and len(tables.arrival) * 7 * (longest + SHIFT + JITTER) <= MOST_NUMBERS
        and bool(tables.peak_blocks.sum() < 2**23)  # so that floats of 32 bits are exact
    )


class Soft:
    """The search over starts."""

    def __init__(self, tables: Tables, plan: Array, slots: int) -> None:
        self.tables = tables
        self.start: Array = plan[:, 0, BEGIN].copy()
        self.length: Array = tables.segments[:, 1].copy()
        self.pad = 3 * (int(self.length.max()) + SHIFT + JITTER)
        self.load = self._loads()
        self.over: Array = np.full(slots, -tables.limits[0], np.float32)
        for i, (start, length) in enumerate(zip(self.start, self.length, strict=True)):
            self.over[start : start + length] += self.blocks(i)
        jobs = zip(
            tables.arrival.tolist(), (1 / tables.area).tolist(), (tables.area * tables.rate).tolist(), strict=True
        )
        worth = machine_prices(jobs, float(tables.limits[0]), slots)
        worth = np.pad(worth, (0, slots - len(worth)))
        self.worth: Array = (worth + FLOOR * worth.max()).astype(np.float32)
        self.rank: Array = np.argsort(tables.area, kind="stable")

    def blocks(self, i: int) -> Array:
        """Return the blocks of request i by batch."""
        return self.load[i, self.pad : self.pad + self.length[i]]

    def run(self, rounds: int, share: float, then: float) -> None:
        """Make `rounds` moves, while the share of all moves that are made goes from `share` to `then`."""
        hot, cold, dear, dearer = (_at(values, x) for values in (HEAT, DEAR) for x in (share, then))
        rate = self.tables.rate
        cooling = Cooling(hot * rate.mean(), cold * rate.mean(), dear, dearer)
        loads = Loads(self.load, self.pad, self.length, self.tables.arrival, rate, self.rank)
        soften(rounds, cooling, self.worth, self.over, loads, self.start)

    def order(self) -> tuple[Array, Array]:
        """Return an order in which to insert the requests, those that fit first, and from when on each."""
        room = np.full(len(self.over), self.tables.limits[0])
        early: list[int] = []
        late: list[int] = []
        for i in self.rank.tolist():
            window = room[self.start[i] : self.start[i] + self.length[i]]
            fits = bool((window >= self.blocks(i)).all())
            if fits:
                window -= self.blocks(i).astype(np.int64)
            (early if fits else late).append(i)
        release = self.start.copy()
        release[late] = self.tables.arrival[late]
        return np.array(early + late), release

    def _loads(self) -> Array:
        block, segments = self.tables.switches[0], self.tables.segments
        batch = np.arange(self.length.max())
        blocks = -(-(segments[:, :1] + batch) // block) * (batch < self.length[:, None])
        return np.pad(blocks.astype(np.float32), ((0, 0), (self.pad, self.pad)))


def _at(values: tuple[float, float, float], share: float) -> float:
    """Return the value at a share of the search: geometric from the first to the second, and on to the third."""
    first, second, third = values
    if share < EARLY:
        return float(first * (second / first) ** (share / EARLY))
    return float(second * (third / second) ** ((share - EARLY) / (1 - EARLY)))
