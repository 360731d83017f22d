"""Percentiles by bisection: the longest time that too many requests must exceed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from bounds.enumeration import propose_enumeration
from bounds.events import propose_events
from bounds.late_windows import WindowSearch
from bounds.task import Proposal, Task
from bounds.tuning import Options, option
from kvcore.certificates.alone import Alone
from kvcore.certificates.budget import InvalidCertificate
from kvcore.certificates.shares import Shares
from kvcore.certificates.tail import LateTail
from kvcore.errors import BadInput
from kvcore.instance import LIMIT
from kvcore.metrics import Tail, Value, objective_value, tail_of
from kvcore.referee import verify_schedule
from kvcore.schedule import Schedule

LATE = "late-requests"


@dataclass(frozen=True)
class TailOptions(Options):
    """Bisection for a percentile."""

    precision: float = option(2e-3, "of the percentile: windows are not tried for less than that more", least=0)


def propose_tails(task: Task) -> Iterator[Proposal | Schedule]:
    """Return ever larger times that too many requests exceed."""
    tail = tail_of(task.objective)
    assert tail is not None
    return _TailSearch(task, tail).climb()


class _TailSearch:
    """The percentile is at least `low`; `high` is that of a known schedule."""

    def __init__(self, task: Task, tail: Tail) -> None:
        self.task, self.tail = task, tail
        self.low = int(Alone().value(task.instance, task.objective))
        self.found = False
        self.high: Value | None = task.upper
        self.spared = tail.spared(len(task.instance.requests))

    def climb(self) -> Iterator[Proposal | Schedule]:
        step, windows = self.low, WindowSearch(self.late(LIMIT))  # none is late: all work counts
        for division in windows.by_load()[:6]:
            yield from self.by_windows(windows, division, step)
            step = self.least
        with suppress(BadInput, InvalidCertificate):
            yield from self.by_search()
        if not self.found:
            raise BadInput("no more is proved than that no request is faster than alone")

    @property
    def least(self) -> int:
        return max(1, int(TailOptions.given().precision * self.low))

    def by_windows(self, windows: WindowSearch, division: Shares, step: int) -> Iterator[Proposal]:
        grows = True
        while step >= self.least and windows.has_time():
            within = self.low - 1 + step
            found = windows.windows(division, self.late(within).instance, self.spared)
            if (found.value or 0) > self.spared:
                yield self.gained(within, found.proof)
            grows = grows and self.low > within
            step = 2 * step if grows else step // 2

    def late(self, within: int) -> Task:
        due = self.tail.due(self.task.instance, within)
        return replace(self.task, instance=due, objective=LATE, upper=self.spared + 1)

    def gained(self, within: int, proof: Any) -> Proposal:
        self.low, self.found = within + 1, True
        return Proposal(LateTail(within=within, proof=proof), self.low)

    def by_search(self) -> Iterator[Proposal | Schedule]:
        propose = propose_enumeration if self.task.instance.contents else propose_events
        while self.high is None or self.low < self.high:
            within = 2 * self.low if self.high is None else (self.low + int(self.high) - 1) // 2
            before = self.low, self.high
            for found in propose(self.late(within)):
                if isinstance(found, Schedule):
                    schedule = found.replace(instance_sha256=self.task.instance.sha256)
                    value = objective_value(verify_schedule(self.task.instance, schedule), self.task.objective)
                    if self.high is None or value < self.high:
                        self.high = value
                        yield schedule
                elif (found.value or 0) > self.spared:
                    yield self.gained(within, found.proof)
            if before == (self.low, self.high) or self.task.is_over():
                return
