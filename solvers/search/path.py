"""From the states along a path, or from no search at all, to a schedule."""

from __future__ import annotations

import numpy as np

from kvbound.instance import Request
from kvbound.schedule import Batch, Schedule
from solvers.search.guides import Guide
from solvers.search.problem import Problem
from solvers.search.state import NEVER, Option, passed
from solvers.search.successors import States


def schedule_of(problem: Problem, guide: Guide, path: list[States]) -> Schedule:
    """Return the schedule whose batches lead from each state of the path to the next."""
    at = list(problem.columns)
    clock = _Clock(problem)
    batches = []
    for state, following in zip(path, path[1:], strict=False):
        options, rows = _step(problem, guide, state, following, int(path[-1].cost[0]))
        if options is not None:
            chosen = {problem.instance.requests[i]: option for i, option in zip(at, options, strict=True)}
            batches.append(_batch(clock.start(int(state.time[0]), chosen), chosen))
        for columns in problem.groups:
            order = np.argsort(rows[columns], kind="stable")
            at[columns] = [at[columns][i] for i in order]
    return Schedule(instance_sha256=problem.instance.sha256, batches=tuple(batches))


def serial_schedule(problem: Problem) -> Schedule:
    """Return the schedule that runs one request after another, which is always feasible."""
    clock = _Clock(problem)
    batches = []
    now = 0
    for i, request in sorted(enumerate(problem.instance.requests), key=lambda pair: pair[1].arrival):
        state = problem.first_state(request, i)
        now = max(now, request.arrival)
        state = passed(state, state.remaining)
        while state.status:
            working = [option for option in problem.table.legal.of(state)[0] if option.work]
            option = max(working, key=lambda option: (-option.moves.drop, option.work))
            start = clock.start(now, {request: option})
            batches.append(_batch(start, {request: option}))
            now = start + problem.instance.cost.duration(option.features()) + option.after.remaining
            state = passed(option.after, option.after.remaining)
    return Schedule(instance_sha256=problem.instance.sha256, batches=tuple(batches))


class _Clock:
    """When batches start. For busy-time, whose states have no ticks, each waits for all arrivals and returns."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.timeless = problem.name == "busy-time"
        self.ready = max(request.arrival for request in problem.instance.requests)

    def start(self, tick: int, chosen: dict[Request, Option]) -> int:
        """Return when a batch starts that the search starts at `tick`."""
        if not self.timeless:
            return tick
        start = self.ready
        options = list(chosen.values())
        end = start + _duration(self.problem, options)
        self.ready = end
        for request, option in chosen.items():
            if option.generates and option.after.segment and option.after.device == option.resident + option.work:
                call = request.segments[option.after.segment - 1].call
                begins = option.after.left == request.segments[option.after.segment].decode
                if call is not None and begins:
                    self.ready = max(self.ready, end + call.duration)
        return start


def _duration(problem: Problem, options: list[Option]) -> int:
    ...
