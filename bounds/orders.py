"""Searches for orders of batches, one after another, with ever more labels; and schedules of an order."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from math import ceil, inf

from bounds.task import Proposal, Task
from bounds.traced import path
from formulations.timing import start_early
from kvcore.certificates.budget import Most
from kvcore.certificates.potentials import Potentials, PotentialSearch
from kvcore.certificates.tokens import chain_of
from kvcore.instance import Instance
from kvcore.metrics import scale_of
from kvcore.referee import InvalidSchedule
from kvcore.schedule import Batch, Schedule


class Looks:
    """Numbers of labels."""

    first = 1000  # after which there is a proof


def looks(
    task: Task, searches: Iterable[tuple[Potentials, PotentialSearch]], most: int = Most.labels
) -> Iterator[Proposal | Schedule]:
    """Yield their proofs and schedules with ever more labels, up to `most` of them."""
    waiting, labels = [*searches], min(Looks.first, most)
    while waiting:
        for proof, search in [*waiting]:
            look = search.run(labels, task.stops if labels > Looks.first else lambda: False)
            yield Proposal(proof.replace(labels=look.labels), look.bound)
            with suppress(InvalidSchedule):  # it may take memory, or a budget, that there is not
                if look.is_found:
                    yield in_order(task.instance, order_of(search))
            if task.is_over():
                return
            if look.is_over or labels >= min(most, search.most):
                waiting.remove((proof, search))
        labels = min(labels * 4, most)


def can_bind(instance: Instance) -> bool:
    """Return whether contexts may not fit together."""
    machine = instance.machine
    if machine.memory is None:
        return False
    return sum(machine.blocks(request.peak) for request in instance.requests) > machine.memory // machine.block


def upper_of(task: Task) -> int | None:
    """Return the value of a known schedule in the units of a target."""
    return None if task.upper is None else ceil(task.upper * scale_of(task.instance.requests, task.objective))


def order_of(search: PotentialSearch) -> list[list[int]]:
    """Return the requests that generate tokens in each batch up to the next label."""
    f = search.orders
    masks = [int(f.batch[at]) for at in path(f.labels, int(f.labels.heap[0]))[1:]]
    return [[i for i in range(f.token.shape[1]) if mask >> i & 1] for mask in masks]


def in_order(instance: Instance, order: Sequence[Sequence[int]]) -> Schedule:
    """Return the schedule of an order, in as few batches as its budgets allow, started early.

    Raises InvalidSchedule where the referee refuses it.
    """
    machine, works = instance.machine, [iter(chain_of(request)) for request in instance.requests]
    most = min(limit for limit in (machine.batch_tokens, machine.prefill_tokens, inf) if limit is not None)
    batches = []
    for batch in order:
        left = {instance.requests[i].id: next(works[i])[0] for i in batch}
        while left:
            room, work = most - len(left), dict[str, int]()  # of each a token is left for the last batch
            for id in left:
                work[id] = int(min(left[id], 1 + max(0, room)))
                room -= work[id] - 1
            if work != left:
                work = {id: tokens - (tokens == left[id]) for id, tokens in work.items()}
            batches.append(Batch(start=0, work={id: tokens for id, tokens in work.items() if tokens}))
            left = {id: tokens - work[id] for id, tokens in left.items() if tokens > work[id]}
    return start_early(instance, batches).schedule
