"""The method that prices slots of time."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from bounds.ascent import ascend
from bounds.generate import generate
from bounds.prices import DEVICE, Floats, Oracle, SlotPricing, first_prices, proof_of
from bounds.task import Proposal, Task
from bounds.tree import propose_tree
from kvcore.certificates.budget import Budget
from kvcore.certificates.prices import kinds, spend
from kvcore.errors import BadInput

PIECES = 320
"""Prices change at most so often where requests make calls, unless there are `FEW_SLOTS`."""
FEW_SLOTS = 2000
ROUNDS = 2000
"""Subgradients, at the most."""
HOPE, MARGIN = 0.1, 0.02
"""Steps aim at so much above the first bound where no value is known, and always at so much above the bound there."""
STRIDES = 3
"""So many first slots are looked at in each piece."""
MOST_CELLS = 2**26
"""Tokens of a request times slots, on a machine that evicts: 16 bytes are kept for each."""
MOST_SLOTS = 400_000
"""Slots beyond which arrays of prices for every request would take too long: coarsen first."""


def propose_prices(task: Task) -> Iterator[Proposal]:
    """Return prices of the limits of each slot (BadInput, at once, where they prove nothing)."""
    return _proposals(task, SlotPricing(task.instance, task.objective))


def _proposals(task: Task, pricing: SlotPricing) -> Iterator[Proposal]:
    first, slots = first_prices(pricing, MOST_SLOTS)
    if slots > MOST_SLOTS:
        raise BadInput(f"prices of slots take at most {MOST_SLOTS} slots, and {slots} are needed; coarsen first")
    cells = slots * max(request.output for request in task.instance.requests)
    if task.instance.machine.evict and cells > MOST_CELLS:
        raise BadInput(f"prices of slots take at most {MOST_CELLS} tokens times slots, not {cells}; coarsen first")
    spend(count := Budget(), task.instance.machine, kinds(task.instance), slots)
    task.begin(count)
    calls = any(request.calls for request in task.instance.requests)
    piece = max(1, slots // PIECES) if calls and slots > FEW_SLOTS else 1
    oracle = Oracle(pricing, slots, piece, max(1, piece // STRIDES))
    start = np.zeros(oracle.room.shape)
    start[DEVICE] = [first[p * piece : (p + 1) * piece].mean() for p in range(oracle.pieces)]
    try:
        begin = [oracle.best, oracle.evaluate(start)]
        if calls:
            generate(oracle, begin, task.deadline)
        else:
            _ascend(oracle, task)
    finally:  # on KeyboardInterrupt too
        yield Proposal(proof_of(pricing, oracle.spread(oracle.best.prices)))
    if calls and piece == 1 and oracle.best.prices.any():
        yield from propose_tree(task, oracle)


def _ascend(oracle: Oracle, task: Task) -> None:
    """Look for better prices; a row is measured in its limit, so that all rows move alike."""
    begin, scale = oracle.best, np.where(oracle.pricing.limits > 0, oracle.pricing.limits, 1.0)[:, None]

    def evaluate(scaled: Floats) -> tuple[float, Floats]:
        point = oracle.evaluate(scaled / scale)
        return point.bound, oracle.excess(point) / scale

    target = begin.bound * (1 + HOPE) if task.upper is None else float(task.upper)
    ascend(
        evaluate, begin.prices * scale, target, rounds=ROUNDS, margin=MARGIN * abs(begin.bound), step=4.0,
        momentum=0.75, stalled=20, go_on=lambda best: time.process_time() < task.deadline,
    )  # fmt: skip
