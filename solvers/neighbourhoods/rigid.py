"""Requests that are one block in time: a start each, searched with memory that may be exceeded, then made to fit."""

import numpy as np

from bounds.slot_dual import machine_prices
from solvers.neighbourhoods.arrays import Array, InstanceArrays
from solvers.neighbourhoods.insertion import BEGIN
from solvers.neighbourhoods.scope import Shifts
from solvers.neighbourhoods.soft import Cooling, Loads, soften


def is_rigid(arrays: InstanceArrays) -> bool:
    """Whether a request is one block of memory in time, nothing else is limited, and memory holds several of them."""
    longest, shifts = int(arrays.segments[:, 1].max()), Shifts()
    return (
        len(arrays.segments) == len(arrays.arrival)
        and not arrays.has_budgets
        and bool(4 * int(arrays.peak_blocks.max()) <= arrays.limits[0])
        and len(arrays.arrival) * 7 * (longest + shifts.shift + shifts.jitter) <= 2**25  # numbers in the table of loads
        and bool(arrays.peak_blocks.sum() < 2**23)  # so that floats of 32 bits are exact
    )


class Soft:
    """The search over starts."""

    def __init__(self, arrays: InstanceArrays, plan: Array, slots: int) -> None:
        self.arrays, self.shifts = arrays, Shifts()
        self.start: Array = plan[:, 0, BEGIN].copy()
        self.length: Array = arrays.segments[:, 1].copy()
        self.pad = 3 * (int(self.length.max()) + self.shifts.shift + self.shifts.jitter)
        self.load = self._loads()
        self.over: Array = np.full(slots, -arrays.limits[0], np.float32)
        for i, (start, length) in enumerate(zip(self.start, self.length, strict=True)):
            self.over[start : start + length] += self.blocks(i)
        jobs = zip(
            arrays.arrival.tolist(), (1 / arrays.area).tolist(), (arrays.area * arrays.rate).tolist(), strict=True
        )
        worth = machine_prices(jobs, float(arrays.limits[0]), slots)
        worth = np.pad(worth, (0, slots - len(worth)))
        self.worth: Array = (worth + 0.25 * worth.max()).astype(np.float32)
        self.rank: Array = np.argsort(arrays.area, kind="stable")

    def blocks(self, i: int) -> Array:
        """Return the blocks of request i by batch."""
        return self.load[i, self.pad : self.pad + self.length[i]]

    def run(self, rounds: int, share: float, then: float) -> None:
        """Make `rounds` moves, while the share of all moves that are made goes from `share` to `then`."""
        ways = (10.0, 0.5, 0.25), (1.0, 2.0, 15.0)  # heats, and factors of prices: first, then, at the end
        hot, cold, dear, dearer = (_at(values, x, 0.7) for values in ways for x in (share, then))
        rate = self.arrays.rate
        cooling = Cooling(hot * rate.mean(), cold * rate.mean(), dear, dearer)
        loads = Loads(self.load, self.pad, self.length, self.arrays.arrival, rate, self.rank)
        soften(rounds, cooling, self.shifts, self.worth, self.over, loads, self.start)

    def order(self) -> tuple[Array, Array]:
        """Return an order in which to insert the requests, those that fit first, and from when on each."""
        room = np.full(len(self.over), self.arrays.limits[0])
        early: list[int] = []
        late: list[int] = []
        for i in self.rank.tolist():
            window = room[self.start[i] : self.start[i] + self.length[i]]
            fits = bool((window >= self.blocks(i)).all())
            if fits:
                window -= self.blocks(i).astype(np.int64)
            (early if fits else late).append(i)
        release = self.start.copy()
        release[late] = self.arrays.arrival[late]
        return np.array(early + late), release

    def _loads(self) -> Array:
        block, segments = self.arrays.switches[0], self.arrays.segments
        batch = np.arange(self.length.max())
        blocks = -(-(segments[:, :1] + batch) // block) * (batch < self.length[:, None])
        return np.pad(blocks.astype(np.float32), ((0, 0), (self.pad, self.pad)))


def _at(values: tuple[float, float, float], share: float, early: float) -> float:
    """Return the value at a share of the search: geometric from the first to the second, and on to the third."""
    first, second, third = values
    if share < early:
        return float(first * (second / first) ** (share / early))
    return float(second * (third / second) ** ((share - early) / (1 - early)))
