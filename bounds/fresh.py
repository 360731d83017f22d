"""Orders of fresh work, one function of the cost after another, with ever more labels."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf

from bounds.task import Proposal, Task
from bounds.traced import path
from bounds.tuning import Options, option
from formulations.timing import start_early
from kvcore.certificates.budget import Most
from kvcore.certificates.fresh import Fresh, FreshSearch, chain_of, check_size, most_fee
from kvcore.instance import Instance
from kvcore.referee import InvalidSchedule
from kvcore.schedule import Batch, Schedule


@dataclass(frozen=True)
class FreshOptions(Options):
    """Orders of fresh work."""

    first_labels: int = option(1000, "labels after which there is a first proof")


def propose_fresh(task: Task) -> Iterator[Proposal | Schedule]:
    """Return the proofs of searches within the time; the first is always made.

    Raises InvalidCertificate where there is no hope.
    """
    check_size(task.instance)
    return _proofs(task)


def _proofs(task: Task) -> Iterator[Proposal | Schedule]:
    instance, options = task.instance, FreshOptions.given()
    searches = {
        (k, fee, memory): FreshSearch(instance, task.objective, k, Most.labels, task.upper, None, fee, memory)
        for k, function in enumerate(instance.cost.functions)
        if function.tokens or function.busy or k == 0
        for fee in sorted({0, most_fee(instance, k)})
        for memory in ((False, True) if can_bind(instance) else (False,))
    }
    labels = options.first_labels
    while searches:
        for (k, fee, memory), search in [*searches.items()]:
            look = search.run(labels, task.stops if labels > options.first_labels else lambda: False)
            proof = Fresh(function=k, fee=fee, memory=memory, labels=look.labels, target=search.target)
            yield Proposal(proof, look.bound)
            with suppress(InvalidSchedule):  # it may take memory, or a budget, that there is not
                if look.is_found:
                    yield in_order(instance, order_of(search))
            if task.is_over():
                return
            if look.is_over or labels == Most.labels:
                del searches[k, fee, memory]
        labels = min(labels * 4, Most.labels)


def can_bind(instance: Instance) -> bool:
    """Return whether contexts may not fit together."""
    machine = instance.machine
    if machine.memory is None:
        return False
    return sum(machine.blocks(request.peak) for request in instance.requests) > machine.memory // machine.block


def order_of(search: FreshSearch) -> list[list[int]]:
    """Return the requests that generate tokens in each batch up to the next label."""
    f, requests = search.orders, range(len(search.jobs.length))
    masks = [int(f.batch[at]) for at in path(f.labels, int(f.labels.heap[0]))[1:]]
    return [[i for i in requests if mask >> i & 1] for mask in masks]


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
