"""Prices of slots of time."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bounds.branch_and_bound import propose_tree
from bounds.clock import now
from bounds.column_generation import generate
from bounds.lagrangian import Floats, Oracle, SlotPricing, first_prices, proof_of
from bounds.subgradient import ascend
from bounds.task import Proposal, Task
from bounds.tuning import Options, option
from kvcore.certificates.budget import Budget
from kvcore.certificates.path_kernels import DEVICE
from kvcore.certificates.prices import kinds, spend
from kvcore.errors import BadInput


@dataclass(frozen=True)
class PriceOptions(Options):
    """Prices of the limits of each slot."""

    rounds: int = option(2000, "subgradients, at the most")
    most_cells: int = option(2**26, "tokens of a request times slots where the machine evicts: each takes 16 bytes")
    most_slots: int = option(400_000, "slots beyond which prices for every request would take too long")


def propose_prices(task: Task) -> Iterator[Proposal]:
    """Return prices of the limits of each slot."""
    return _proposals(task, SlotPricing(task.instance, task.objective))


def _proposals(task: Task, pricing: SlotPricing) -> Iterator[Proposal]:
    options = PriceOptions.given()
    first, slots = first_prices(pricing, most := options.most_slots)
    if slots > most:
        raise BadInput(f"prices of slots take at most {most} slots, and {slots} are needed; coarsen first")
    cells = slots * max(request.output for request in task.instance.requests)
    if task.instance.machine.evict and cells > options.most_cells:
        raise BadInput(
            f"prices of slots take at most {options.most_cells} tokens times slots, not {cells}; coarsen first"
        )
    spend(count := Budget(), task.instance.machine, kinds(task.instance), slots)
    task.begin(count)
    calls = any(request.calls for request in task.instance.requests)
    # where requests make calls prices change at most so often, unless slots are few
    piece = max(1, slots // 320) if calls and slots > 2000 else 1  # slots that are few
    oracle = Oracle(pricing, slots, piece, max(1, piece // 3))  # first slots that are looked at in each piece
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
    """Rows are measured in their limits, so that all move alike."""
    begin, scale = oracle.best, np.where(oracle.pricing.limits > 0, oracle.pricing.limits, 1.0)[:, None]

    def evaluate(scaled: Floats) -> tuple[float, Floats]:
        point = oracle.evaluate(scaled / scale)
        return point.bound, oracle.excess(point) / scale

    options = PriceOptions.given()
    # steps aim at so much above the first bound where no value is known
    target = begin.bound * 1.1 if task.upper is None else float(task.upper)
    ascend(
        evaluate, begin.prices * scale, target, rounds=options.rounds, margin=0.02 * abs(begin.bound),
        step=4.0, momentum=0.75, stalled=20,
        go_on=lambda best: now() < task.deadline,
    )  # fmt: skip
