"""Shares of time: weights of the lines of the cost, and shares of the fixed part of a batch."""

from collections.abc import Iterator

from bounds.clock import now
from bounds.task import Proposal, Task, spend_check
from kvcore.certificates.budget import Budget
from kvcore.certificates.shares import RESOURCES, UNIT, Shares
from kvcore.certificates.steps import lines
from kvcore.instance import Instance
from kvcore.metrics import Value


def propose_shares(task: Task) -> Iterator[Proposal]:
    """Yield the best so far of a line of the cost and a resource.

    All but the first are begun only if evaluated by the deadline.
    """
    best: Value | None = None
    seconds = 0.0  # what the longest evaluation took
    for proof in corners(task.instance):
        began = now()
        if best is None:
            proof.spend(task.instance, count := Budget())
            task.begin(count)
        elif began + seconds > task.deadline:
            return
        spend_check(task.instance)
        value = proof.value(task.instance, task.objective)
        seconds = max(seconds, now() - began)
        if best is None or value > best:
            best = value
            yield Proposal(proof, value)


def corners(instance: Instance) -> Iterator[Shares]:
    """Yield a proof for each line of the cost and each limited resource."""
    machine, count = instance.machine, len(lines(instance.cost))
    limits = (machine.block_limit, None, machine.batch_tokens, machine.prefill_limit or machine.block_limit,
              machine.batch_requests)  # fmt: skip
    limited = [{name: UNIT} for name, limit in zip(RESOURCES, limits, strict=True) if limit is not None]
    limited += [{"packing": UNIT, "packs": packs} for packs in range(1, 1 + most_packs(instance))]
    for k in range(count):
        for shared in limited or [{}]:
            yield Shares(functions=tuple(UNIT * (i == k) for i in range(count))).replace(**shared)


def most_packs(instance: Instance) -> int:
    """Return the most packs worth a try; 0 if enough requests fit that whole numbers hardly matter."""
    machine, requests = instance.machine, instance.requests
    if machine.block_limit is None:
        return 0
    ends = sum(machine.blocks(request.peak) for request in requests)
    starts = sum(machine.blocks(request.prompt) for request in requests)
    hold = machine.block_limit * len(requests)
    most = 12  # where more fit together it matters little that they are whole
    return min(most, hold // starts) if hold // ends <= most else 0
