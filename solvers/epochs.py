"""Schedules of few requests with calls: an order and switches for each epoch, annealed (`epoch_kernels`).

Where few requests fill the memory, what pays is when to copy KV to the host and back behind other work.
"""

from itertools import permutations

import numpy as np

from bounds.clock import Units
from kvcore.certificates.events import line_of
from kvcore.certificates.options import Load
from kvcore.features import FLOWS, RULES, Feature, Takes, features
from kvcore.instance import LIMIT, Instance
from kvcore.metrics import scale_of, weight
from kvcore.schedule import Batch, Schedule
from solvers import epoch_kernels as kernels
from solvers.epoch_kernels import END, Genes, Jobs
from solvers.neighbourhoods.annealing import steps
from solvers.neighbourhoods.destroy_repair import seed_draws


class Epochs:
    """Numbers of the search."""

    requests = 5  # at the most: their orders multiply
    restarts = 4
    hot = 0.01  # of the value
    least = 16  # tokens of a prefill in parts
    most = 200_000  # batches


TAKES = Takes((RULES | FLOWS) - {Feature.NO_PAUSE, Feature.PRESERVE, Feature.DISCARD, Feature.SWAP, Feature.ONE_PHASE})
PRICED = {"tokens", "swap_out_tokens", "swap_in_tokens"}
"""What a batch is paid for, besides `busy`."""


def applies(instance: Instance, objective: str) -> bool:
    """Whether the search takes the instance and the objective."""
    machine = instance.machine
    plain = machine.partial and machine.evict and machine.prefill_tokens is None and machine.batch_requests is None
    if (
        len(instance.requests) > Epochs.requests
        or not plain
        or TAKES.missing(features(instance, objective)) is not None
    ):
        return False
    lines = [line_of(function) for function in instance.cost.functions]
    loads = {name for added, _ in lines for name, rate in zip(Load._fields, added, strict=True) if rate}
    return loads <= PRICED and not any(others[1:5] != [0] * 4 for _, others in lines)


def search(instance: Instance, objective: str, seconds: float, seed: int, rounds: int | None = None) -> Schedule | None:
    """Return the best schedule found (the referee has not seen it), or None: after `seconds`, or `rounds`."""
    jobs, rng = jobs_of(instance, objective), np.random.default_rng(seed)
    if not _is_small(instance, jobs):
        return None
    n, epochs = len(instance.requests), 2 + 2 * sum(len(request.segments) for request in instance.requests)
    now_, tried, best = (
        Genes(np.zeros(2 * epochs, np.int64), np.zeros(2 * epochs, np.int64), np.full(epochs, LIMIT)) for _ in range(3)
    )
    x, none = np.zeros((kernels.ROWS, n), np.int64), np.zeros((0, 5, n), np.int64)
    least, longest, tokens = LIMIT, max(8, int(jobs.count.max()) // 3), int(jobs.count.sum())
    seed_draws(seed)
    for restart in range(Epochs.restarts):
        now_.order[:], now_.switches[:] = rng.integers(len(jobs.orders)), rng.integers(END)
        now_.cut[:] = LIMIT
        value, _ = kernels.simulate(jobs, now_, x, LIMIT - 1, none)
        if value < least:
            least = value
            kernels.copy(now_, best)
        elif least < LIMIT and restart % 2:
            kernels.copy(best, now_)
            value = least
        part = seconds / Epochs.restarts, rounds and rounds // Epochs.restarts
        for moves, begun, then in steps(*part, first=50, units=Units.token * 0.01 * tokens):
            value, least = kernels.anneal(
                jobs,
                now_,
                value,
                tried,
                best,
                least,
                x,
                none,
                moves,
                Epochs.hot * (1 - begun),
                Epochs.hot * (1 - then),
                longest,
            )
    _, made = kernels.simulate(jobs, best, x, LIMIT - 1, none)
    batches = np.zeros((made, 5, n), np.int64)
    kernels.simulate(jobs, best, x, LIMIT - 1, batches)
    return _schedule(instance, batches) if made else None


def jobs_of(instance: Instance, objective: str) -> Jobs:
    """Return the numbers of an instance that `applies` lets pass."""
    requests, machine = instance.requests, instance.machine
    counts = [request.output for request in requests]
    context, call = np.zeros((len(requests), max(counts)), np.int64), np.full((len(requests), max(counts)), -1)
    for i, request in enumerate(requests):
        known, q = request.prompt, 0
        for segment in request.segments:
            context[i, q : q + segment.decode] = known + np.arange(segment.decode)
            known, q = known + segment.decode, q + segment.decode
            if segment.call is not None:
                call[i, q - 1], known = segment.call.duration, known + segment.call.returns
    scale, lines = scale_of(requests, objective), [line_of(function) for function in instance.cost.functions]
    places = [Load._fields.index(name) for name in ("tokens", "swap_out_tokens", "swap_in_tokens")]
    rates = np.array([[added[place] for place in places] for added, _ in lines], np.int64)
    return Jobs(
        arrival=np.array([request.arrival for request in requests], np.int64),
        count=np.array(counts, np.int64), context=context, call=call,
        rate=np.array([int(scale * weight(request, objective)) for request in requests], np.int64),
        busy=np.array([others[0] for _, others in lines], np.int64), tokens=rates[:, 0].copy(),
        swap_out=rates[:, 1].copy(), swap_in=rates[:, 2].copy(),
        divisor=np.array([others[-1] for _, others in lines], np.int64),
        orders=np.array([*permutations(range(len(requests)))], np.int64),
        blocks=LIMIT if machine.block_limit is None else machine.block_limit, block=machine.block,
        host=LIMIT if machine.host_memory is None else machine.host_memory,
        batch=LIMIT if machine.batch_tokens is None else machine.batch_tokens, chunked=machine.chunked,
        least=Epochs.least, most=Epochs.most,
    )  # fmt: skip


def _is_small(instance: Instance, jobs: Jobs) -> bool:
    tokens = sum(request.peak for request in instance.requests)
    waits = instance.requests[-1].arrival + sum(request.call_time for request in instance.requests)
    longest = int(jobs.busy.max()) + tokens * (
        int(jobs.tokens.max()) + int(jobs.swap_out.max()) + int(jobs.swap_in.max())
    )
    return int(jobs.rate.sum()) * (waits + Epochs.most * (longest + 1)) < LIMIT


def _schedule(instance: Instance, steps: kernels.Array) -> Schedule:
    ids, batches = [request.id for request in instance.requests], []
    for step in steps.tolist():
        parts = [{id: tokens for id, tokens in zip(ids, part, strict=True) if tokens} for part in step[1:]]
        batches.append(
            Batch.unchecked(step[0][0], **dict(zip(("work", "drop", "swap_out", "swap_in"), parts, strict=True)))
        )
    return Schedule(instance_sha256=instance.sha256, batches=tuple(batches))
