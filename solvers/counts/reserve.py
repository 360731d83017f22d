"""First schedules: a request starts once it and all that run fit up to their ends, so that none is evicted.

This is the feasibility test of MC-SF (Jaillet et al., arXiv 2502.07115), the shortest outputs first. At most so many
start in a batch: where they start one after another they also end so, and the memory stays full.
"""

from __future__ import annotations

from formulations.timing import start_early
from kvcore.instance import Instance, Request
from kvcore.schedule import Batch, Schedule

Running = list[tuple[Request, int]]
"""Requests with the tokens that each has generated."""


def reserving_schedule(instance: Instance, most_starts: int) -> Schedule:
    """Return the schedule with at most so many starts in a batch; requests have no calls, and budgets do not bind."""
    waiting = sorted(instance.requests, key=lambda request: (request.output, request.prompt))
    running: Running = []
    batches: list[Batch] = []
    while waiting or running:
        for _ in range(most_starts):
            if waiting and fits(instance, [*running, (waiting[0], 0)]):
                running.append((waiting.pop(0), 0))
        batches.append(Batch(start=0, work={r.id: 1 if generated else r.prompt for r, generated in running}))
        running = [(r, generated + 1) for r, generated in running if generated + 1 < r.output]
    return start_early(instance, batches).schedule


def fits(instance: Instance, running: Running) -> bool:
    """Whether all can run on to their ends, without a break."""
    limit, blocks = instance.machine.block_limit, instance.machine.blocks
    if limit is None:
        return True
    ahead = max(request.output - generated for request, generated in running)
    return all(
        sum(blocks(r.prompt + generated + step) for r, generated in running if generated + step < r.output) <= limit
        for step in range(ahead)
    )
