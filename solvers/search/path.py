"""Schedules: from the states along a path of the search, and one that needs no search."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from kvcore.cost import Features
from kvcore.instance import Request
from kvcore.schedule import Batch, Schedule
from solvers.search.layers import Pass
from solvers.search.problem import Problem
from solvers.search.state import LocalOption, passed
from solvers.search.successors import States
from solvers.search.table import Rows

Chosen = list[tuple[Request, LocalOption]]
"""What a batch does with each request."""


def schedule_of(found: Pass, path: list[States]) -> Schedule:
    """Return the schedule whose batches (and waits) lead from each state of a path to the next."""
    problem = found.problem
    at = [problem.instance.requests[i] for i in problem.columns]
    timing = _Timing(problem)
    batches = []
    for state, following in pairwise(path):
        rows, options = _step(found, state, following)
        if options:
            chosen = list(zip(at, options, strict=True))
            batches.append(_batch(timing.start(int(state.time[0]), chosen), chosen))
        for columns in problem.groups:
            order = np.argsort(rows[columns], kind="stable")
            at[columns] = [at[columns][i] for i in order]
    return Schedule(instance_sha256=problem.instance.sha256, batches=tuple(batches))


def serial_schedule(problem: Problem) -> Schedule:
    """Return the schedule that runs one request after another, which is always feasible."""
    timing = _Timing(problem)
    batches = []
    now = 0
    for i, request in sorted(enumerate(problem.instance.requests), key=lambda pair: pair[1].arrival):
        state = problem.first_state(request, i)
        now = max(now, request.arrival)
        state = passed(state, state.remaining)
        while state.status:
            working = [option for option in problem.table.legal.of(state)[0] if option.work]
            option = max(working, key=lambda option: (-option.moves.drop, option.work))
            start = timing.start(now, [(request, option)])
            batches.append(_batch(start, [(request, option)]))
            now = start + problem.instance.cost.duration(option.features()) + option.after.remaining
            state = passed(option.after, option.after.remaining)
    return Schedule(instance_sha256=problem.instance.sha256, batches=tuple(batches))


class _Timing:
    """When batches start. For busy-time, whose states have no ticks, each waits for all arrivals and returns."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.ready = max(request.arrival for request in problem.instance.requests)

    def start(self, tick: int, chosen: Chosen) -> int:
        """Return when a batch starts that the search starts at `tick`."""
        if self.problem.name != "busy-time":
            return tick
        start = self.ready
        end = start + self.problem.instance.cost.duration(_features([option for _, option in chosen]))
        calls = [
            request.calls[option.after.segment - 1].duration for request, option in chosen if _calls(request, option)
        ]
        self.ready = end + max(calls, default=0)
        return start


def _calls(request: Request, option: LocalOption) -> bool:
    """Whether the request starts a call at the end of the batch."""
    after = option.after
    return option.generates and after.segment > 0 and after.to_generate == request.segments[after.segment].decode


def _features(options: Sequence[LocalOption]) -> Features:
    """Return the features of a batch."""
    single = [option.features() for option in options]
    total = Features(*map(sum, zip(*single, strict=True)))
    return total._replace(
        busy=min(1, total.busy), any_decode=min(1, total.any_decode), any_prefill=min(1, total.any_prefill)
    )


def _batch(start: int, chosen: Chosen) -> Batch:
    return Batch(
        start=start,
        work={request.id: option.work for request, option in chosen if option.work},
        drop={request.id: option.moves.drop for request, option in chosen if option.moves.drop},
        swap_out={request.id: option.moves.swap_out for request, option in chosen if option.moves.swap_out},
        swap_in={request.id: option.moves.swap_in for request, option in chosen if option.moves.swap_in},
    )


def _step(found: Pass, state: States, following: States) -> tuple[Rows, list[LocalOption]]:
    """Return the row that `following` was made from, and the options of the batch (none: a wait)."""
    problem = found.problem
    problem.table.prepare(state.rows)
    room = following.f - found.guide.looked_up(state)
    rises = found.guide.rises(int(state.time[0]))
    after, choices = problem.run(state, rises, room)
    which = _same(problem, after, following)
    if len(which):
        return after.rows[which[0]], [problem.table.options[k] for k in choices.options[which[0]].tolist()]
    waited = problem.wait(state)
    return waited.rows[_same(problem, waited, following)[0]], []


def _same(problem: Problem, states: States, other: States) -> np.ndarray:
    """Return the positions of the states that are equal to `other`."""
    same = (problem.canonical(states.rows.copy()) == other.rows).all(axis=1)
    return np.nonzero(same & (states.time == other.time) & (states.cost == other.cost))[0]
