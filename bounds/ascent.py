"""Subgradients with momentum: prices follow what the ways at them take beyond the limits."""

from __future__ import annotations

import time

import numpy as np

from bounds.prices import Floats, Oracle, Point

MOMENTUM = 0.75
PATIENCE, SHRINK, SMALLEST = 20, 0.6, 0.001
"""Rounds without a better bound before steps shrink, by how much, and when they are too small to go on."""
HOPE = 0.05
"""Where no better target is known, steps aim at so much (as a fraction) above the best bound."""


def ascend(oracle: Oracle, point: Point, target: float, deadline: float, rounds: int = 2000) -> Point:
    """Return the best prices found from `point` on, in Polyak's steps towards `target`.

    A row is measured in its limit, so that all rows move alike.
    """
    scale = np.where(oracle.market.limits > 0, oracle.market.limits, 1.0)[:, None]
    best, step, waited, move = point, 1.0, 0, np.zeros_like(point.prices)
    for _ in range(rounds):
        if step < SMALLEST or time.monotonic() > deadline:
            break
        if target < best.bound * (1 + HOPE / 10):
            target = best.bound * (1 + HOPE)
        move = MOMENTUM * move + (1 - MOMENTUM) * excess(oracle, point) / scale
        move = np.where((point.prices <= 0) & (move < 0), 0.0, move)
        norm = float((move**2).sum())
        if norm == 0:
            break
        point = oracle.evaluate(np.maximum(point.prices + step * (target - point.bound) / norm * move / scale, 0))
        waited += 1
        if point.bound > best.bound:
            best, waited = point, 0
        elif waited == PATIENCE:
            point, step, waited = best, step * SHRINK, 0
            move[:] = 0
    return best


def excess(oracle: Oracle, point: Point) -> Floats:
    """Return what the ways take beyond the limits, [rows, pieces]; rows without a limit never do."""
    kinds = oracle.market.kinds
    taken = sum((kind.count * way.use for kind, way in zip(kinds, point.ways, strict=True)), np.zeros_like(oracle.room))
    return np.where(oracle.market.limits[:, None] > 0, taken - oracle.room, 0.0)
