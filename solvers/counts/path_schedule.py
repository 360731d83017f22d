"""From a path through the layers to a schedule of requests."""

from collections import defaultdict
from itertools import pairwise

import numpy as np

from kvcore.schedule import Batch, Schedule
from solvers.counts.layers import CountPass, CountStates
from solvers.counts.model import CountsModel, Progress
from solvers.counts.vectors import Array


def schedule_of(found: CountPass, path: list[CountStates]) -> Schedule | None:
    """Return the schedule along a path, or None if one of its batches has no work."""
    model = found.model
    instance = model.instance
    places = _Places(model)
    now = max(request.arrival for request in instance.requests)
    batches = []
    for i, (state, following) in enumerate(pairwise(path)):
        times = _times(found, state, following, found.batches - i)
        batch = places.batch(times, now)
        if not batch.work:
            return None
        batches.append(batch)
        now += model.batch + sum(step.cost * count for step, count in zip(model.steps, times, strict=True))
    return Schedule(instance_sha256=instance.sha256, batches=tuple(batches))


def _times(found: CountPass, state: CountStates, following: CountStates, to_go: int) -> list[int]:
    """Return how often each step is taken from a state to the next."""
    stages = found.to_go.stages(to_go)
    states = state
    times: Array = np.zeros((1, 0), np.int64)
    for k in range(len(found.model.steps)):
        states.parent = np.arange(len(states))
        parts = list(found.repeated(states, k, stages))
        counts = np.concatenate([np.full(len(part), count) for part, count in parts])
        states = CountStates.join([part for part, _ in parts])
        times = np.column_stack([times[states.parent], counts])
    states.parent = np.arange(len(states))
    states = found.ended(states)
    same = (states.vector == following.vector[0]) & (states.cost == following.cost[0])
    same &= (states.pools == following.pools[0]).all(axis=1)
    row: list[int] = times[states.parent[np.nonzero(same)[0][0]]].tolist()
    return row


class _Places:
    """Which requests stand where."""

    def __init__(self, model: CountsModel) -> None:
        self.model = model
        self.pools: dict[Progress, list[str]] = defaultdict(list)
        self.slots: dict[Progress, list[str]] = defaultdict(list)
        for request in model.instance.requests:
            self.pools[Progress(request.prompt, request.segments[0].decode)].append(request.id)

    def batch(self, times: list[int], start: int) -> Batch:
        """Make one batch, whose steps are taken so many times."""
        model = self.model
        work: dict[str, int] = {}
        dropped: dict[Progress, list[str]] = defaultdict(list)
        later: list[tuple[Progress, str]] = []
        for step in (step for step, count in zip(model.steps, times, strict=True) for _ in range(count)):
            point = model.slots[step.takes] if step.takes >= 0 else model.pools[step.out_of]
            if step.into >= 0:
                dropped[point].append(self.slots[point].pop())
                continue
            if step.takes >= 0 or self.pools[point]:
                request = (self.slots if step.takes >= 0 else self.pools)[point].pop()
                work[request] = 1 if step.takes >= 0 else point.known
            else:
                request = dropped[point].pop()  # to drop and refill at once is to go on, which costs no more
                work[request] = 1
            later.append((Progress(point.known + 1, point.remaining - 1), request))
        for point, request in later:
            self.slots[point].append(request)
        for point, requests in dropped.items():
            self.pools[point] += requests
        drop = {request: point.known - 1 for point, requests in dropped.items() for request in requests}
        return Batch(start=start, work=work, drop=drop)
