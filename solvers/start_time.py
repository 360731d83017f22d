"""Requests that run from start to end as an integer program over their starts, for HiGHS (`docs/start_time.md`)."""

import time
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from bounds.configurations import schedule_of
from bounds.tuning import Options, option
from formulations.timing import objective_bound
from kvcore.instance import Instance
from kvcore.metrics import Value
from kvcore.result import Size, Stop
from kvcore.rigid import kinds_of, memory_of
from kvcore.schedule import Schedule
from solvers.matrix import Array, MatrixModel
from solvers.messages import Bound, Done, Found, Send, SolveJob


@dataclass(frozen=True)
class StartTimeOptions(Options):
    """The program of start times."""

    most_numbers: int = option(20_000_000, "nonzeros of a program that is still built")


def run(job: SolveJob, send: Send) -> Done:
    """Build the program of `job`, start it from its schedule, solve it; schedules and bounds are sent as they come."""
    from solvers.highs import minimise

    began = time.monotonic()
    program = StartTimes(job.instance, job.objective, job.upper_bound)
    if program.numbers > StartTimeOptions.given().most_numbers:
        return Done(Stop.MEMORY_LIMIT)
    program.build(job.start)
    send(Size(*program.size))

    def on_bound(bound: float) -> None:
        if abs(bound) < 1e20:  # HiGHS says "none yet" by an infinity
            send(Bound(objective_bound(bound, 1, 1)))

    left = max(0.5, job.time_limit - (time.monotonic() - began))
    return minimise(program, replace(job, time_limit=left), lambda x: send(Found(*program.schedule(x))), on_bound)


class StartTimes(MatrixModel):
    """The program: how many requests of each kind start at each tick, counted from the first arrival.

    It has all schedules of value `upper` or less. Two more sets of integer columns say how many requests have started,
    and ended, up to each tick: branching on them splits the sum of the completions evenly.
    """

    def __init__(self, instance: Instance, objective: str, upper: Value | None) -> None:
        self.instance, self.kinds = instance, kinds_of(instance, objective)
        ends = max(kind.release for kind in self.kinds) + sum(kind.count * kind.length for kind in self.kinds)
        least = sum(kind.count * kind.rate * kind.span for kind in self.kinds)
        last = [ends - kind.length for kind in self.kinds]
        if upper is not None:
            spare = int(upper) - least
            last = [min(end, k.release + spare // k.rate) for end, k in zip(last, self.kinds, strict=True)]
        self.starts = [(k, t) for k, kind in enumerate(self.kinds) for t in range(kind.release, last[k] + 1)]
        self.ticks = 1 + max(t + self.kinds[k].length for k, t in self.starts)

    @cached_property
    def limits(self) -> list[tuple[int, list[list[int]]]]:
        """What a tick offers, and what one request of each kind takes of it in its batches.

        First memory, in blocks; then the budgets (requests, tokens, prefill tokens) that there are.
        """
        machine = self.instance.machine
        budgets = (  # in the first batch, and in each of the others
            (machine.batch_requests, [(1, 1) for _ in self.kinds]),
            (machine.batch_tokens, [(kind.prompt, 1) for kind in self.kinds]),
            (machine.prefill_limit, [(kind.prompt, 0) for kind in self.kinds]),
        )
        memory = (memory_of(self.instance, self.kinds), [list(kind.load) for kind in self.kinds])
        return [memory] + [
            (limit, [[first] + [later] * (k.length - 1) for k, (first, later) in zip(self.kinds, uses, strict=True)])
            for limit, uses in budgets if limit is not None
        ]  # fmt: skip

    @property
    def numbers(self) -> int:
        """About how many nonzeros it has."""
        return sum(len(uses[k]) for _, uses in self.limits for k, _ in self.starts) + 3 * len(self.starts)

    def build(self, start: Schedule | None) -> None:
        """Write the columns and the rows: each request starts once, each tick keeps its limits, and the counts."""
        kinds, n, ticks = self.kinds, len(self.starts), self.ticks
        kind, tick = (np.array(side) for side in zip(*self.starts, strict=True))
        counts = np.array([each.count for each in kinds])
        parts = [(kind, np.arange(n), np.ones(n))]
        first = len(kinds)
        for _, uses in self.limits:
            lengths = np.array([len(use) for use in uses])[kind]
            column = np.repeat(np.arange(n), lengths)
            batch = np.arange(len(column)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            parts.append((first + tick[column] + batch, column, np.concatenate([uses[k] for k in kind])))
            first += ticks
        for place, event in enumerate(self.events):
            up_to = n + place * ticks + np.arange(ticks)
            rows = first + np.arange(ticks)
            parts += [(rows, up_to, np.ones(ticks)), (rows[1:], up_to[:-1], -np.ones(ticks - 1))]
            parts.append((first + event, np.arange(n), -np.ones(n)))
            first += ticks
        row, column, value = (np.concatenate(side) for side in zip(*parts, strict=True))
        self.A = csr_matrix((value.astype(float), (row, column)), (first, n + 2 * ticks))
        offered = np.repeat([float(limit) for limit, _ in self.limits], ticks)
        self.row_lower = np.concatenate([counts, np.full(len(offered), -np.inf), np.zeros(2 * ticks)])
        self.row_upper = np.concatenate([counts, offered, np.zeros(2 * ticks)])
        self.c = np.concatenate([[kinds[k].cost(t) for k, t in self.starts], np.zeros(2 * ticks)])
        self.lower, self.offset = np.zeros(n + 2 * ticks), 0.0
        self.upper = np.concatenate([counts[kind], np.full(2 * ticks, counts.sum())]).astype(float)
        self.integer = np.ones(n + 2 * ticks, bool)
        self.from_schedule = None if start is None else self._point(start)

    @cached_property
    def events(self) -> tuple[Array, Array]:
        """Of each column, the tick of the start and that of the end."""
        return np.array([t for _, t in self.starts]), np.array([t + self.kinds[k].length for k, t in self.starts])

    def _point(self, schedule: Schedule) -> Array | None:
        """Return the columns of a schedule (None: it starts a request at a tick without a column)."""
        ticks: dict[str, int] = {}
        for batch in schedule.batches:
            for id in batch.work:
                ticks.setdefault(id, batch.start - self.instance.first_arrival)
        place, taken = {start: j for j, start in enumerate(self.starts)}, np.zeros(len(self.starts))
        for k, kind in enumerate(self.kinds):
            for id in kind.ids:
                if (k, ticks[id]) not in place:
                    return None
                taken[place[k, ticks[id]]] += 1
        counts = (np.cumsum(np.bincount(event, taken, self.ticks)) for event in self.events)
        return np.concatenate([taken, *counts])

    def start(self) -> Array | None:
        """Return the columns of the schedule to start from, if there is one."""
        return self.from_schedule

    def schedule(self, x: Array) -> tuple[Schedule, int]:
        """Return the schedule of a solution, and its value."""
        taken = np.rint(x[: len(self.starts)]).astype(int)
        jobs = [start for start, number in zip(self.starts, taken.tolist(), strict=True) for _ in range(number)]
        return schedule_of(self.instance, self.kinds, jobs), sum(self.kinds[k].cost(t) for k, t in jobs)
