"""Searches with rising targets: each leaves a proof that no schedule is below its target, or such a schedule."""

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple, Protocol

from bounds.task import Proposal, Task
from kvcore.certificates.proof import Proof
from kvcore.metrics import objective_value
from kvcore.referee import verify_schedule
from kvcore.schedule import Schedule


class Attempt(NamedTuple):
    """A proof that nothing is below the target, a schedule that is, or neither."""

    proof: Proof | None
    schedule: Schedule | None


class TargetSearch(Protocol):
    """Searches for a task whose values are multiples of 1 / `unit`."""

    task: Task
    unit: int
    first_tries: int
    """Tries of the first searches."""
    more_tries: int
    """Factor of the tries of the next searches."""
    most_tries: int

    def lowest(self, upper: int | None = None) -> int:
        """Return what is proved without a search; above `upper` nothing need be proved."""

    def search(self, target: int, most_tries: int, *, beam: bool = False) -> Attempt:
        """Look below a target; with `beam`, only at a few states of each tick, and prove nothing."""


def rising_targets(solver: TargetSearch) -> Iterator[Proposal | Schedule]:
    """Look below targets until the bound meets the best schedule, or tries are over.

    Raises InvalidSchedule where the referee refuses a schedule.
    """
    task = solver.task
    best = None if task.upper is None else int(task.upper * solver.unit)
    proved, step, tries = solver.lowest(best), 1, solver.first_tries
    failed: int | None = None  # a target that takes more tries
    first = solver.search(proved, tries)
    if first.proof is not None:
        yield Proposal(first.proof, Fraction(proved, solver.unit))
    while best is None or proved < best:
        known = task.news()
        if known is not None and (best is None or known * solver.unit < best):
            best, failed = int(known * solver.unit), None
            continue
        target = proved + step if failed is None else (proved + failed) // 2
        target = target if best is None else min(target, best)
        if target == proved:
            tries, failed, step = tries * solver.more_tries, None, 1
            if tries > solver.most_tries:
                return
            continue
        proof, schedule = solver.search(target, tries)
        if proof is None and schedule is None:
            schedule = solver.search(target, tries, beam=True).schedule
        if proof is not None:
            proved, step = target, 2 * step
            yield Proposal(proof, Fraction(target, solver.unit))
        elif schedule is not None:
            value = objective_value(verify_schedule(task.instance, schedule), task.objective)
            best, failed = int(value * solver.unit), None
            yield schedule
        else:
            failed = target
