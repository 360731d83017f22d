"""Better schedules by destroy and repair (`docs/solving.md`)."""

from collections.abc import Iterator

import numpy as np

from bounds.clock import Units, now, spend
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.metrics import objective_value
from kvcore.referee import InvalidSchedule, verify_schedule
from kvcore.schedule import Schedule
from kvcore.trace import Trace
from solvers.neighbourhoods import destroy_repair
from solvers.neighbourhoods.arrays import InstanceArrays
from solvers.neighbourhoods.destroy_repair import PieceLists
from solvers.neighbourhoods.insertion import END, use
from solvers.neighbourhoods.pieces import read_pieces, schedule_of
from solvers.neighbourhoods.scope import Moves, NeighbourhoodOptions, why_not


def improve(
    instance: Instance,
    objective: str,
    schedule: Schedule,
    *,
    seconds: float,
    seed: int,
    rounds: int | None = None,
) -> Schedule:
    """Return a schedule that the referee passes, at least as good as `schedule`.

    The search ends after `seconds`, without compiling; with `rounds`, after these moves, and is deterministic.

    Raises:
        BadInput: the instance or the objective is none that `scope.why_not` lets pass.
        InvalidSchedule: `schedule` breaks a rule.
    """
    reason = why_not(instance, objective)
    if reason is not None:
        raise BadInput(f"improving schedules does not go with {reason}; use the schedule as it is")
    given = verify_schedule(instance, schedule)
    run = Annealing(given, objective, seed)
    run.run(seconds, rounds)
    try:
        found = schedule_of(instance, run.arrays, run.best_plan, run.best_count)
    except InvalidSchedule:  # an eviction in a slot that is no batch
        return schedule
    values = [objective_value(trace, objective) for trace in (verify_schedule(instance, found), given)]
    return found if values[0] < values[1] else schedule


class Annealing:
    """A schedule in pieces, and the best one found so far."""

    def __init__(self, given: Trace, objective: str, seed: int) -> None:
        self.arrays, self.options = InstanceArrays(given.instance, objective), NeighbourhoodOptions.given()
        self.moves = Moves(self.options.size)
        self.plan, self.count = read_pieces(given, self.arrays)
        ends = int(self.plan[:, :, END].max())
        self.slots = ends + ends // 8 + 64
        self.room = self.arrays.room(self.slots)
        for plan, count in zip(self.plan, self.count, strict=True):
            use(self.room, self.arrays.switches[0], plan, count, -1)
        self.best_plan, self.best_count, self.best = self.plan.copy(), self.count.copy(), np.inf
        destroy_repair.seed_draws(seed)
        self._anneal(0, 1.0, 1.0)

    def run(self, seconds: float, rounds: int | None) -> None:
        """Search until time is up, or `rounds` moves are made."""
        hot, cold = self.options.hot, self.options.cold
        for moves, share, then in steps(seconds, rounds):
            self._anneal(moves, hot * (cold / hot) ** share, hot * (cold / hot) ** then)

    def _anneal(self, rounds: int, hot: float, cold: float) -> None:
        t, heat = self.arrays, float(self.arrays.rate.mean())
        self.best = destroy_repair.anneal(
            rounds, hot * heat, cold * heat, self.room, t.grid(self.slots), t.requests,
            PieceLists(self.plan, self.count), PieceLists(self.best_plan, self.best_count), self.best, self.moves,
        )  # fmt: skip


def steps(
    seconds: float, rounds: int | None, first: int = 1_000, units: float = Units.move
) -> Iterator[tuple[int, float, float]]:
    """Yield the number of moves to make next, and the shares of the search before and after them, until it is over.

    With `rounds`, one step makes all moves; else the `first` come before the speed is known. `units` are those of a
    move.
    """
    if rounds is not None:
        yield rounds, 0.0, 1.0
        return
    began, made, moves, look = now(), 0, first, 0.2
    while (passed := now() - began) < seconds:
        if passed:  # a coarse clock may not have moved
            moves = int(made / passed * min(look, seconds - passed)) + 1
        spend(units * moves)
        yield moves, passed / seconds, min(1.0, (passed + look) / seconds)
        made += moves
