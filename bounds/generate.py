"""Column generation: prices from the linear program, paths from the prices, until no path is cheaper."""

from __future__ import annotations

import time

from bounds.master import Master
from bounds.prices import Oracle, PricePoint

STAY = 0.6
"""How near to the best prices known new ones are tried (Wentges): 0 would be the program's own, which leap."""
CLOSE = 1e-4
"""The bound and the program's value are called equal when they differ by less than this fraction."""


def generate(oracle: Oracle, begin: list[PricePoint], deadline: float, rounds: int = 200) -> PricePoint:
    """Return the best prices found by `deadline`, starting from those of `begin`."""
    master = Master(oracle)
    for point in begin:
        master.add(point.paths)
    best = max(begin, key=lambda point: point.bound)
    for _ in range(rounds):
        solved = master.solve()
        if solved is None:
            break
        value, prices = solved
        if value - best.bound < CLOSE * abs(value) or time.monotonic() > deadline:
            break
        stay = STAY
        while True:
            point = oracle.evaluate(stay * best.prices + (1 - stay) * prices)
            master.add(point.paths)
            if point.bound > best.bound or stay == 0:
                break
            stay = 0 if stay < 0.3 else stay - 0.3
        best = max(best, point, key=lambda p: p.bound)
    return best
