"""Windows with more work than time: generated rows of a linear program, whose duals are their weights."""

from collections.abc import Iterator
from math import inf
from typing import Any

import highspy
import numpy as np
import numpy.typing as npt

from bounds.clock import by_clock, now, spend_pivots
from bounds.highs import Silent
from bounds.shares import corners
from bounds.task import Proposal, Task
from kvcore.certificates.budget import Budget, Most
from kvcore.certificates.late_windows import NEVER, ONE, DueWork, LateWindows, due_work, least_number
from kvcore.certificates.shares import PricedSteps, Shares
from kvcore.compiled import allocating
from kvcore.errors import BadInput
from kvcore.instance import Instance

Floats = npt.NDArray[np.float64]


def propose_late_windows(task: Task) -> Iterator[Proposal]:
    """Return weights of windows, for one division of the time of batches after another (BadInput: none).

    All but the first are begun only if done by the deadline.
    """
    if all(request.slo is None for request in task.instance.requests):
        raise BadInput("no request has an SLO")
    return _proposals(task)


def _proposals(task: Task) -> Iterator[Proposal]:
    search = WindowSearch(task)
    for division in search.by_load()[:6]:
        if not search.has_time():
            return
        yield search.windows(division)


class WindowSearch:
    """The steps of the instance, and the longest time of a division."""

    def __init__(self, task: Task) -> None:
        self.task, self.seconds = task, 0.0
        self.steps: dict[int, PricedSteps] = {}

    def has_time(self) -> bool:
        """Whether there is time for one more division; always for the first."""
        return not self.seconds or now() + self.seconds <= self.task.deadline

    def due(self, division: Shares, instance: Instance) -> DueWork:
        """Return the work of each request and its due times, of `instance` or else of the task."""
        if division.packs not in self.steps:
            self.steps[division.packs] = PricedSteps(self.task.instance, division)
        steps = self.steps[division.packs].divided(division)
        steps.instance = instance
        return due_work(steps)

    def by_load(self) -> list[Shares]:
        """Return a division for each amount of work with a due time, the largest first."""
        chosen = list(corners(self.task.instance))
        LateWindows(functions=chosen[0].functions).spend(self.task.instance, count := Budget())
        self.task.begin(count)
        loads: dict[float, Shares] = {}
        for division in chosen:
            due = self.due(division, self.task.instance)
            load = float(np.where(due.due < NEVER, due.whole, due.first).sum()) * 0.5**due.bits
            loads.setdefault(load, division)
        return [loads[load] for load in sorted(loads, reverse=True)]

    def windows(self, division: Shares, instance: Instance | None = None, enough: float = inf) -> Proposal:
        """Return the windows of a division, and what they prove for the due times of `instance` (default: the task's).

        None is added once more than `enough` requests are late.
        """
        began = now()
        due = self.due(division, instance or self.task.instance)
        rows = _Rows(due)
        for _ in range(12):  # three or four rounds are mostly enough
            if (
                not rows.add()
                or not rows.solve(max(0.5, self.task.seconds_left))
                or self.task.is_over()
                or due.late + rows.late.sum() > enough + 1e-3
            ):
                break
        shared = division.model_dump(exclude={"kind", "alone", "windows"})
        proof = LateWindows(**shared, rows=rows.weighed())
        self.seconds = max(self.seconds, now() - began)
        return Proposal(proof, proof.late(due))


class _Rows:
    """How late each request is, from 0 to 1, such that no window has too much work."""

    def __init__(self, due: DueWork) -> None:
        self.due, n = due, len(due.arrival)
        dues = np.concatenate([due.first_due, due.due])
        self.order = np.argsort(dues, kind="stable")[: int((dues < NEVER).sum())]
        self.ends, self.owner = dues[self.order], self.order % max(n, 1)
        self.work = np.concatenate([due.first, due.whole - due.first])[self.order] * 0.5**due.bits
        self.starts = np.unique(due.arrival)
        self.late, self.weights = np.zeros(n), np.zeros(0)
        self.known: dict[tuple[int, int], None] = {}
        self.highs = Silent(threads=1)
        self.highs.addVars(n, np.zeros(n), np.ones(n))
        self.highs.changeColsCost(n, np.arange(n, dtype=np.int32), np.ones(n))

    def add(self) -> bool:
        left, release = self.work * (1 - self.late[self.owner]), self.due.arrival[self.owner]
        over, ends = fullest(self.starts, release, self.ends, left)
        most = max(1, 10**7 // max(1, 2 * len(self.late)))  # as many entries in one round
        least = 1e-3 * max(1e-9, float(self.work.mean())) if len(self.work) else 0.0
        before = len(self.known)
        for place in np.argsort(-over, kind="stable")[:most]:
            if over[place] <= least:
                break
            window = int(self.starts[place]), int(ends[place])
            if window not in self.known:
                self._add(window)
        return len(self.known) > before

    def _add(self, window: tuple[int, int]) -> None:
        inside = self.due.inside(*window)
        too_much = int(inside.sum()) - self.due.units(window[1] - window[0])
        if too_much <= 0:
            return
        self.known[window] = None
        places = np.flatnonzero(inside).astype(np.int32)
        parts, count = np.minimum(inside[places], too_much) / too_much, len(places)
        self.highs.addRow(1.0, highspy.kHighsInf, count, places, parts)
        self.highs.addRow(float(least_number(inside, too_much)), highspy.kHighsInf, count, places, np.ones(count))

    def solve(self, seconds: float) -> bool:
        self.highs.setOptionValue("time_limit", self.highs.getRunTime() + by_clock(seconds))
        self.highs.run()
        spend_pivots(self.highs.getInfo().simplex_iteration_count)
        if self.highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return False
        found = self.highs.getSolution()
        self.late = np.clip(np.array(found.col_value), 0, 1)
        self.weights = np.maximum(0, np.array(found.row_dual))
        return True

    def weighed(self) -> tuple[tuple[int, int, int, int], ...]:
        whole = np.rint(self.weights * ONE).astype(np.int64)
        whole = whole if whole.sum() < Most.window_weight else whole * 0
        pairs = zip(self.known, whole.reshape(-1, 2).tolist(), strict=False)
        return tuple((start, end, y, z) for (start, end), (y, z) in pairs if y or z)


@allocating
def fullest(starts: Any, release: Any, ends: Any, work: Any) -> Any:
    """Return for each start the largest excess of work over a window, and its end; `ends` increase."""
    over, best = np.zeros(len(starts)), np.zeros(len(starts), np.int64)
    for i in range(len(starts)):
        total = 0.0
        for k in range(len(ends)):
            if release[k] >= starts[i]:
                total += work[k]
                more = total - (ends[k] - starts[i])
                if more > over[i]:
                    over[i], best[i] = more, ends[k]
    return over, best
