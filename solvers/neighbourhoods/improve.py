"""Better schedules by destroy and repair: see `docs/neighbourhoods.md`."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from kvbound.errors import BadInput
from kvbound.instance import Instance
from kvbound.metrics import objective_value
from kvbound.schedule import Schedule
from kvbound.trace import Trace
from kvbound.validator import verify_schedule
from solvers.neighbourhoods import search
from solvers.neighbourhoods.read import read_pieces, read_schedule
from solvers.neighbourhoods.scope import why_not
from solvers.neighbourhoods.tables import Array, Tables

CHUNK = 0.2
"""Seconds between two looks at the clock."""
HOT, COLD = 5.0, 0.3
"""Slots of delay that a move may bring by and large, at the start and at the end."""
LARGEST = 6
"""Requests that a move takes out at the most."""


def improve(
    instance: Instance,
    objective: str,
    schedule: Schedule,
    *,
    seconds: float,
    seed: int,
    target: int | None = None,
    rounds: int | None = None,
) -> Schedule:
    """Return a schedule that the referee passes and that is at least as good as `schedule`.

    The search takes `seconds`, or less where it makes `rounds` moves, which makes it deterministic, or comes down to
    the value `target`. Compiling, once per machine, and writing the schedule are not counted.

    Raises:
        BadInput: the instance or the objective is none that `scope.why_not` lets pass.
        InvalidSchedule: `schedule` breaks a rule.
    """
    reason = why_not(instance, objective)
    if reason is not None:
        raise BadInput(f"improving schedules does not go with {reason}; use the schedule as it is")
    given = verify_schedule(instance, schedule)
    run = Search(given, objective, seed)
    run.anneal(seconds, rounds, target)
    found = read_schedule(instance, run.tables, run.best_plan, run.best_count)
    values = [objective_value(trace, objective) for trace in (verify_schedule(instance, found), given)]
    return found if values[0] < values[1] else schedule


class Search:
    """A schedule in pieces, and the best one found so far."""

    def __init__(self, given: Trace, objective: str, seed: int) -> None:
        self.tables = Tables(given.instance, objective)
        self.plan, self.count = read_pieces(given, self.tables)
        ends = self.plan[:, :, 2].max()
        self.slots = int(ends + ends // 8 + 64)
        self.room = self.tables.room(self.slots)
        for plan, count in zip(self.plan, self.count, strict=True):
            search.use(self.room, self.tables.switches[0], plan, count, -1)
        self.best_plan, self.best_count = self.plan.copy(), self.count.copy()
        self.offset = float(self.tables.rate @ self.tables.arrival)
        search.seed_draws(seed)
        self.best, self.moves = np.inf, 0
        self._run(0, 1.0, 1.0)

    def value(self) -> float:
        """Return the objective of the best schedule found."""
        return self.best - self.offset

    def anneal(self, seconds: float, rounds: int | None, target: int | None) -> None:
        """Search until time is up, `rounds` moves are made, or the value is at most `target`."""
        began, speed = time.monotonic(), 1_000.0
        most = np.inf if rounds is None else rounds
        while self.moves < most and (passed := time.monotonic() - began) < seconds:
            if target is not None and self.value() <= target + 1e-6:
                break
            now = int(min(speed * min(CHUNK, seconds - passed), most - self.moves)) + 1
            share = self.moves / most if rounds else passed / seconds
            then = (self.moves + now) / most if rounds else min(1.0, (passed + CHUNK) / seconds)
            self._run(now, _heat(share), _heat(then))
            speed = self.moves / (time.monotonic() - began)

    def _run(self, rounds: int, hot: float, cold: float) -> None:
        t = self.tables
        self.best, _ = search.anneal(
            rounds, hot, cold, self.room, t.gear(self.slots), t.arrival, t.segments, t.first, t.rate,
            t.by_first_token, t.area, self.plan, self.count, self.best_plan, self.best_count, self.best, LARGEST,
        )  # fmt: skip
        self.moves += rounds


def _heat(share: float) -> float:
    """Return the heat when a share of the search is over."""
    return HOT * (COLD / HOT) ** share
