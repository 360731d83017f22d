"""The banker's test: all holders of a resource can still get what they claim, one after another."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from kvcore.instance import LIMIT

Blocks = NDArray[np.int64]
Flags = NDArray[np.bool_]
Holding = tuple[int, int]
"""What a request holds, and its claim, at least as much, up to which that may grow before all of it comes back."""


def is_safe(capacity: int, holdings: Iterable[Holding]) -> bool:
    """Whether all holders can reach their claims one after another. O(n log n)."""
    needs = sorted((claim - held, held) for held, claim in holdings)
    free = capacity - sum(held for _, held in needs)
    for need, held in needs:
        if need > free:
            return False
        free += held
    return free >= 0


class Banker:
    """A safe state of one resource, and the test whether a growth keeps it safe.

    In the order of their needs (claim - held), the slack of a holder is what it finds free beyond its need. A growth
    takes from the slacks before it only. `_floor[k]` is the least slack of the first k, `_before[k]` what they hold.
    The arrays are those of the latest `_rebuild`; `_grown` has been added since, by holders that kept their places. A
    test is O(1) while the slack suffices, O(log n) otherwise, and O(n log n) once after the order has changed.
    """

    def __init__(self, capacity: int, holdings: dict[int, Holding]) -> None:
        self._holdings = holdings
        self._free = capacity - sum(held for held, _ in holdings.values())
        self._stale = True
        self._grown = 0

    def _rebuild(self) -> None:
        order = sorted((claim - held, held, i) for i, (held, claim) in self._holdings.items())
        self._needs = [need for need, _, _ in order]
        self._before = [0, *accumulate(held for _, held, _ in order)]
        slacks = (self._free + before - need for before, need in zip(self._before, self._needs, strict=False))
        self._floor = list(accumulate(slacks, min, initial=LIMIT))
        self._place = {i: place for place, (_, _, i) in enumerate(order)}
        self._grown = 0
        self._stale = False

    def admits(self, i: int, growth: int, claim: int) -> bool:
        """Whether the state stays safe if `i` grows by `growth` towards `claim`."""
        if growth <= 0:
            return True
        if self._stale:
            self._rebuild()
        if self._keeps_place(i, growth):
            return True
        if self._grown:
            self._rebuild()
        need = claim - self._holdings.get(i, (0, claim))[0]
        place = bisect_left(self._needs, need - growth)
        return self._floor[place] >= growth and self._free + self._before[place] >= need

    def grow(self, i: int, growth: int, claim: int) -> None:
        """Let `i` grow (or shrink) towards `claim`."""
        if growth > 0 and self._keeps_place(i, growth):
            self._grown += growth
        else:
            self._stale = True
        held = self._holdings.pop(i, (0, claim))[0] + growth
        if held:
            self._holdings[i] = (held, claim)
        self._free -= growth

    def grows(self, i: int) -> bool:
        """Let holder `i` grow by one block if the state stays safe; return whether it does."""
        held, claim = self._holdings[i]
        if not self._stale and self._floor[self._place[i]] > self._grown:  # as in _keeps_place
            self._grown += 1
            self._free -= 1
            self._holdings[i] = held + 1, claim
            return True
        if not self.admits(i, 1, claim):
            return False
        self.grow(i, 1, claim)
        return True

    def may_grow(self, growths: Blocks, claims: Blocks) -> Flags:
        """Return for each that holds nothing whether the state stays safe if it starts to grow towards its claim.

        What all of them need is below 10^15, the limit of every count, so that no sum overflows.
        """
        if self._stale or self._grown:
            self._rebuild()
        places = np.searchsorted(np.array(self._needs, dtype=np.int64), claims - growths)
        floor, before = np.array(self._floor, dtype=np.int64), np.array(self._before, dtype=np.int64)
        safe: Flags = (growths <= floor[places]) & (claims <= self._free + before[places])
        return safe

    def _keeps_place(self, i: int, growth: int) -> bool:
        """Whether the slacks suffice for a growth of `i` at its place in the order (sufficient, not necessary)."""
        place = None if self._stale else self._place.get(i)
        return place is not None and self._floor[place] >= growth + self._grown
