"""Column generation: prices from the linear program, paths from the prices, until no path is cheaper."""

from __future__ import annotations

import time

from bounds.master import Master
from bounds.prices import Oracle, PricePoint

STAY = 0.6
"""How near to the best prices known new ones are tried (Wentges): 0 would be the program's own, which leap."""
CLOSE = 1e-4
"""The bound and the program's value are called equal when they differ by less than this fraction."""
LEAST = 0.1
"""Seconds that the program has, at the least."""


def generate(oracle: Oracle, begin: list[PricePoint], deadline: float, rounds: int = 200) -> None:
    """Look for the best prices until the deadline, starting from those of `begin`; the oracle keeps them."""
    master = Master(oracle)
    for point in begin:
        master.add(point.paths)
    best = max(begin, key=lambda point: point.bound)
    for _ in range(rounds):
        solved = master.solve(max(LEAST, deadline - time.monotonic()))
        if solved is None:
            break
        value, prices = solved
        if value - best.bound < CLOSE * abs(value) or time.monotonic() > deadline:
            break
        stay = STAY
        while True:
            point = oracle.evaluate(stay * best.prices + (1 - stay) * prices)
            master.add(point.paths)
            if point.bound > best.bound or stay == 0 or time.monotonic() > deadline:
                break
            stay = 0 if stay < 0.3 else stay - 0.3
        best = max(best, point, key=lambda p: p.bound)
