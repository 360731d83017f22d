"""Schedules of a few requests, batch by batch: partial prefills and moves end just in time.

In each batch at most one amount is neither all nor nothing: a prefill, or a swap, that lasts as long as the batch does
anyway, or until a call returns or a request arrives; one that fills the room there is; a drop that makes just the room
needed. The search follows `width` labels with the same tokens left, the least bound first, and proves nothing.

It finds more near the best order of tokens at potentials of work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bounds import just_in_time_kernels as kernels
from bounds.orders import order_of
from bounds.potentials import of_work
from bounds.task import Task
from bounds.traced import path
from bounds.tuning import Options, option
from kvcore.certificates import labels
from kvcore.certificates.budget import InvalidCertificate
from kvcore.certificates.events import line_of
from kvcore.certificates.frontier import VALUES
from kvcore.certificates.labels import TARGET, TOP
from kvcore.certificates.potentials import PotentialSearch
from kvcore.features import FLOWS, RULES, Feature, Takes, features
from kvcore.instance import Instance
from kvcore.limits import limits_of
from kvcore.metrics import Value, objective_value
from kvcore.referee import verify_schedule
from kvcore.schedule import Batch, Schedule


@dataclass(frozen=True)
class TimelyOptions(Options):
    """Schedules of a few requests, just in time."""

    labels: int = option(1_000_000, "labels that a search has room for")
    most_requests: int = option(5, "requests at the most: their options multiply")


TAKES = Takes((RULES | FLOWS) - {Feature.NO_PAUSE, Feature.PRESERVE, Feature.DISCARD, Feature.SWAP})


def applies(instance: Instance, objective: str) -> bool:
    """Whether prefills or moves can be in parts, and the search takes the objective."""
    return (instance.machine.chunked or instance.machine.partial) and TAKES.missing(
        features(instance, objective)
    ) is None


def search(
    instance: Instance,
    objective: str,
    width: int,
    upper: Value | None = None,
    stops: Callable[[], bool] = lambda: False,
    order: Sequence[Sequence[int]] = (),
    slack: int = TOP,
) -> Schedule | None:
    """Return the best schedule found below `upper`, if any; the referee has not seen it.

    With an order, the requests of each batch that generates tokens, none is further from it than `slack` tokens. Raises
    InvalidCertificate where there are too many requests or tokens.
    """
    functions, machine = instance.cost.functions, instance.machine
    options = TimelyOptions.given()
    if len(instance.requests) > options.most_requests:
        raise InvalidCertificate(f"schedules just in time take at most {options.most_requests} requests")
    proof = of_work(Task(instance, objective, upper=upper), _main(instance)).replace(labels=1)
    numbers = PotentialSearch(instance, objective, proof)
    jobs, requests, divisor, low = numbers.machine, instance.requests, numbers.divisor, numbers.machine.rate.min()
    linear, fixed = (np.array(part, dtype=np.int64) for part in zip(*map(line_of, functions), strict=True))
    calls = np.zeros_like(jobs.call)
    for i, request in enumerate(requests):
        calls[i, np.cumsum([segment.decode for segment in request.segments])[:-1] - 1] = 1
    back = max(line.swap_in_tokens * divisor // line.divisor for line in functions)
    p = kernels.Chains(
        length=jobs.length, context=jobs.context, call=jobs.call, calls=calls, rest=jobs.rest,
        rate=jobs.rate - low, low=low, busy=jobs.busy, each=jobs.each, token=jobs.token,
        swap_in_ticks=back, divisor=divisor, block=machine.block, chunked=machine.chunked,
        partial=machine.partial, evict=machine.evict, linear=linear, fixed_costs=fixed,
        limits=np.array(limits_of(machine, TOP), dtype=np.int64), hybrid=machine.hybrid,
        width=width, order=_kept(jobs.length, order), slack=slack,
    )  # fmt: skip
    f = kernels.room(len(requests), options.labels, int(jobs.length.sum()), VALUES + len(functions))
    f.ready[0], f.labels.left[0] = [request.arrival * divisor for request in requests], jobs.length.sum()
    labels.begin(f.labels, int(numbers.orders.labels.count[TARGET]))
    # options after which Python has its turn
    labels.run(kernels.search, p, f, options.labels, stops, 2**18)
    x, rows = f.labels, np.arange(f.labels.count[labels.ROWS] + 1)
    ends = rows[(rows != x.count[labels.FREE]) & (x.left[rows] == 0)]
    return _schedule(instance, p, f, int(ends[x.bound[ends].argmin()])) if len(ends) else None


def search_near(
    instance: Instance,
    objective: str,
    width: int,
    upper: Value | None = None,
    stops: Callable[[], bool] = lambda: False,
) -> Iterator[Schedule]:
    """Yield ever better schedules below `upper` near the best order where nothing comes from the host.

    None without that order in time.
    """
    alone = instance.replace(machine=instance.machine.replace(host_memory=0))
    proof = of_work(Task(alone, objective, upper=upper), _main(instance), range(len(instance.requests)))
    best = PotentialSearch(alone, objective, proof.replace(labels=1_000_000))
    if not best.run(stops=stops).is_found:
        return
    order = order_of(best)
    for made in {alone.sha256: alone, instance.sha256: instance}.values():
        for slack in (6, 3):  # tokens by which a request may be before the order, or behind it
            found = search(made, objective, width, upper, stops, order, slack)
            if found is not None:
                schedule = found.replace(instance_sha256=instance.sha256)
                upper = objective_value(verify_schedule(instance, schedule), objective)
                yield schedule


def _main(instance: Instance) -> int:
    functions = instance.cost.functions
    return max(range(len(functions)), key=lambda k: functions[k].tokens / functions[k].divisor)


def _kept(length: NDArray[np.int64], order: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    kept, left, tokens = np.zeros((length.sum() + 1, len(length)), dtype=np.int64), length.sum(), length * 0
    for batch in order:
        for i in batch:
            tokens[i] += 1
            left -= 1
            kept[left] = tokens
    return kept


def _schedule(instance: Instance, p: kernels.Chains, f: kernels.Steps, end: int) -> Schedule:
    batches, ids = list[Batch](), [request.id for request in instance.requests]
    for at in path(f.labels, end)[1:]:
        columns = f.moves[at].T.tolist()
        moves = {kind: {id: k for id, k in zip(ids, column, strict=True) if k}
                 for kind, column in zip(("drop", "swap_out", "swap_in", "work"), columns, strict=True)}  # fmt: skip
        batches.append(Batch.model_validate({"start": int(f.start[at]) // p.divisor, **moves}))
    return Schedule(instance_sha256=instance.sha256, batches=tuple(batches))
