"""Schedules: from the states along a path of the search, and one that needs no search."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from formulations.timing import start_early
from kvcore.instance import Request
from kvcore.schedule import Batch, Schedule
from solvers.search.layers import Pass
from solvers.search.problem import Problem
from solvers.search.state import LocalOption, passed
from solvers.search.successors import States
from solvers.search.table import Rows


def schedule_of(found: Pass, path: list[States]) -> Schedule:
    """Return the schedule whose batches (and waits) lead from each state of a path to the next.

    The states of busy-time have no ticks: its batches start as early as they can.
    """
    problem = found.problem
    at = [problem.instance.requests[i] for i in problem.columns]
    batches = []
    for state, following in pairwise(path):
        rows, options = _step(found, state, following)
        if options:
            batches.append(_batch(int(state.time[0]), zip(at, options, strict=True)))
        for columns in problem.groups:
            order = np.argsort(rows[columns], kind="stable")
            at[columns] = [at[columns][i] for i in order]
    if problem.name == "busy-time":
        return start_early(problem.instance, batches).schedule
    return Schedule(instance_sha256=problem.instance.sha256, batches=tuple(batches))


def serial_schedule(problem: Problem) -> Schedule:
    """Return the schedule that runs one request after another, which is always feasible."""
    batches = []
    for i, request in sorted(enumerate(problem.instance.requests), key=lambda pair: pair[1].arrival):
        state = problem.first_state(request, i)
        while state.status:
            state = passed(state, state.remaining)
            working = [option for option in problem.table.legal.of(state)[0] if option.work]
            option = max(working, key=lambda option: (-option.moves.drop, option.work))
            batches.append(_batch(0, [(request, option)]))
            state = option.after
    return start_early(problem.instance, batches).schedule


def _batch(start: int, chosen: Iterable[tuple[Request, LocalOption]]) -> Batch:
    """Return the batch that does this with each request."""
    doings: dict[str, dict[str, int]] = defaultdict(dict)
    for request, option in chosen:
        for kind, tokens in (("work", option.work), *option.moves._asdict().items()):
            if tokens:
                doings[kind][request.id] = tokens
    return Batch.model_validate({"start": start, **doings})


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
