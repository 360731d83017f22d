"""The methods that price slots of time: `prices`, and `windows` for machines that hold hardly two large requests."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from bounds.ascent import ascend
from bounds.generate import generate
from bounds.prices import DEVICE, Floats, Oracle, PricePoint, SlotPricing, first_prices, proof_of
from bounds.task import Proposal, Task
from bounds.tree import propose_tree
from kvcore.certificates import Windows
from kvcore.certificates.budget import Budget
from kvcore.certificates.prices import kinds, spend, why_not
from kvcore.errors import BadInput
from kvcore.instance import Instance

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
    """Return prices of the limits of each slot."""
    return _propose(task, ())


def propose_windows(task: Task) -> Iterator[Proposal]:
    """Return prices of the limits, and of the windows around the ends of large requests.

    Raises BadInput where no two requests are too large for each other.
    """
    windows = large_ends(task.instance)
    if windows is None:
        raise BadInput(
            "windows of ends need requests whose last tokens take more than half of the memory, and never leave it "
            "(no `evict`)"
        )
    return _propose(task, (windows,))


def large_ends(instance: Instance) -> Windows | None:
    """Return the windows for requests above half of the memory, shifted so that no prompt shortens them."""
    limit = instance.machine.block_limit
    if limit is None or instance.machine.evict or why_not(instance, "total-flow-time") is not None:
        return None
    before = max(instance.machine.blocks(request.peak) - request.segments[-1].decode for request in instance.requests)
    shift = limit // 2
    windows = Windows(most=1, shift=shift, reach=max(1, shift - before), price=())
    large = [r for r in instance.requests if windows.sides(instance.machine, r) is not None]
    return windows if len(large) > 1 else None


def _propose(task: Task, windows: tuple[Windows, ...]) -> Iterator[Proposal]:
    reason = why_not(task.instance, task.objective)
    if reason is not None:
        raise BadInput(f"prices of slots {reason}")
    return _proposals(task, windows)


def _proposals(task: Task, windows: tuple[Windows, ...]) -> Iterator[Proposal]:
    pricing = SlotPricing(task.instance, task.objective, windows)
    first, slots = first_prices(pricing, MOST_SLOTS)
    if slots > MOST_SLOTS:
        raise BadInput(f"prices of slots take at most {MOST_SLOTS} slots, and {slots} are needed; coarsen first")
    cells = slots * max(request.output for request in task.instance.requests)
    if task.instance.machine.evict and cells > MOST_CELLS:
        raise BadInput(f"prices of slots take at most {MOST_CELLS} tokens times slots, not {cells}; coarsen first")
    spend(count := Budget(), task.instance.machine, kinds(task.instance), slots, len(windows))
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
            _ascend(oracle, begin[0] if windows else oracle.best, task)
    finally:  # on KeyboardInterrupt too
        yield Proposal(proof_of(pricing, oracle.spread(oracle.best.prices)))
    if calls and piece == 1 and oracle.best.prices.any():
        yield from propose_tree(task, oracle)


def _ascend(oracle: Oracle, begin: PricePoint, task: Task) -> None:
    """Look for better prices; a row is measured in its limit, so that all rows move alike."""
    scale = np.where(oracle.pricing.limits > 0, oracle.pricing.limits, 1.0)[:, None]

    def evaluate(scaled: Floats) -> tuple[float, Floats]:
        point = oracle.evaluate(scaled / scale)
        return point.bound, oracle.excess(point) / scale

    target = begin.bound * (1 + HOPE) if task.upper is None else float(task.upper)
    ascend(
        evaluate, begin.prices * scale, target, rounds=ROUNDS, margin=MARGIN * abs(begin.bound), step=4.0,
        momentum=0.75, stalled=20, go_on=lambda best: time.process_time() < task.deadline,
    )  # fmt: skip
