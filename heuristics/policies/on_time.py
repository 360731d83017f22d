"""The on-time rule: Moore and Hodgson's for first tokens, beside decodes."""

from collections.abc import Iterable
from heapq import heappop, heappush
from math import inf
from typing import Any, ClassVar, NamedTuple

import numpy as np

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.policy import Policy, Setting, Tuning
from heuristics.engine.view import View
from heuristics.policies.index import LEAST, Step, title
from heuristics.policies.knee import Knee
from kvcore.instance import LIMIT, Slo

Array = Any
PACE = 0.9  # a batch may last for so much of the time that the most urgent decode has for a token
SHORT = 10.0  # on Azure's conversations, with one price for all tokens, 42 late for 54; with a roofline 10 for 8
WAIT = 0.2  # with `short` 37 late there, but on 600 others 116 for 111
SHARE = 1.0  # of a batch, first tokens get so much; 0.8 made 28 late where 1 made 22
TIGHT = 1.5  # a decode with time for fewer mean batches a token goes before first tokens; 1 to 3 differ by 2 %
RECENT = 0.02  # the weight of the last batch in the mean duration


class Row(NamedTuple):
    """What the present requests have left, an array each, in ticks and tokens."""

    due: Array
    pace: Array
    parts: Array
    alone: Array
    late: Array
    begun: Array
    decodes: Array
    left: Array


class OnTime(Knee):
    """First tokens by due time, decodes by the time that they have for a token; late requests when nothing else works.

    A request is late for good once it could not be on time even alone. Of the others, Moore and Hodgson's rule sets
    some aside, anew for each batch: first tokens by due time, and where the work up to one (`share` of the time is for
    it) passes its due time, the longest so far, for its weight. With `short`, the others go by due time plus `short`
    times the work for their first token. The pace of a request is the time to its end's due time, without calls, over
    the tokens left.

    A batch has the decodes with a pace under 1.5 mean batches, then first tokens by due time, then the other decodes by
    pace, then prefills after a call or an eviction. Prefill goes up to the knee (see `knee`), or until the batch lasts
    0.9 of the least pace of a decode, whichever is later. Without a knee, where longer batches save fixed times, it may
    also last until a decode would be late if its other tokens took a mean batch each. With `wait`, first tokens wait
    beside decodes until one has waited for this share of its time, the work for it included; then all go. For first
    tokens and decodes KV of free calls is evicted, then of late requests, then of those with the most time. Only where
    nothing is on time, late ones and those set aside work, the least left first.

    Running time: O(n log n) a batch, n present, in numpy.
    Source: this project, after Jackson (1955) and Moore (1968), whose rule is optimal for one machine and one arrival.
    """

    share: float = SHARE
    pace: float = PACE
    short: float = 0.0
    wait: float = 0.0
    ttft: float | None = None
    latency: float | None = None
    settings: ClassVar[dict[str, Setting]] = {
        "share": Setting("the share of the time that first tokens get", least=1e-6),
        "pace": Setting("the share of the least pace of a decode for which a batch may last", least=1e-6),
        "short": Setting("by how many times their work first tokens come later than by due time", least=0),
        "wait": Setting("the share of their time that first tokens wait for others", least=0, most=1),
        "ttft": Setting("seconds, in place of what the requests ask for", least=1e-6),
        "latency": Setting("seconds, likewise", least=1e-6),
    }
    tuning: ClassVar = Tuning(
        1.5, 1.1, tuple((SHARE, PACE, short, wait) for short, wait in ((0.0, 0.0), (SHORT, 0.0), (SHORT, WAIT)))
    )
    steady = Policy.steady  # the mean duration, and so who is urgent, changes with every batch

    def __init__(
        self, share: float = SHARE, pace: float = PACE, short: float = 0.0, wait: float = 0.0,
        ttft: float | None = None, latency: float | None = None, factors: Array | None = None,
    ) -> None:  # fmt: skip
        super().__init__(factors=factors)
        given = {"share": None if share == SHARE else share, "pace": None if pace == PACE else pace}
        self.name = title("on-time", **given, short=short or None, wait=wait or None, ttft=ttft, latency=latency)
        self.share, self.pace, self.short, self.wait, self.ttft, self.latency = share, pace, short, wait, ttft, latency

    def start(self, view: View) -> None:
        super().start(view)
        given = [None if limit is None else min(LIMIT, int(limit / self.tick)) for limit in (self.ttft, self.latency)]
        self.slo = None if given == [None, None] else Slo(ttft=given[0], latency=given[1])
        for column in (self.marginal.token, self.marginal.decode):
            column -= LEAST  # what ends at its due time is on time
        self.after = np.zeros((2, 64))  # by index: tokens after the segment, and ticks of calls to come
        self.due = np.full((4, 64), inf)  # of the first token and the end, ticks from the first to the end, first token
        self.late = np.zeros(64, bool)  # for good
        self.weight = np.ones(64)
        self.mean = 0.0
        self._started: list[Job] = []  # who may have the first token after the batch

    def _after(self, job: Job) -> Array:
        demand = job.demand
        return np.array([sum(demand.decode[job.segment + 1 :]), demand.call_ticks[job.segment]], float)

    def observe(self, view: View, plan: Plan) -> None:
        super().observe(view, plan)
        for job in view.arrived:
            if job.index >= len(self.late):
                more = job.index
                self.due = np.pad(self.due, ((0, 0), (0, more)), constant_values=inf)
                self.late, self.weight = np.pad(self.late, (0, more)), np.pad(self.weight, (0, more))
            self.due[:, job.index], self.weight[job.index] = due_times(job, self.slo), job.weight
            if self.factors is not None:
                self.weight[job.index] /= self.factors[job.index]
        for job in self._started:
            if job.generated or job.segment or job.window:
                self.due[3, job.index] = view.now if job.call_start is None else job.call_start
        self._started = [job for job in self._started if self.due[3, job.index] == inf]

    def fill(self, plan: Plan) -> None:
        jobs = self.present()
        if not jobs:
            return
        at = np.array([job.index for job in jobs])
        row = self._row(at)
        first, aside = self._moore_hodgson(row, self.weight[at])
        decodes = np.flatnonzero(~row.late & row.decodes & row.begun)
        decodes = decodes[np.argsort(row.pace[decodes], kind="stable")]
        refills = np.flatnonzero(~row.late & ~row.decodes & row.begun)
        refills = refills[np.argsort((row.pace * row.left - row.alone)[refills], kind="stable")]
        slack = np.where(row.late, inf, np.minimum(row.pace * row.left, LIMIT))
        holds = np.array([bool(job.device) for job in jobs]) & (row.late | row.begun)
        running = [*(jobs[p] for p in np.argsort(slack, kind="stable") if holds[p]), *self._called()]
        tight = int((row.pace[decodes] < TIGHT * self.mean).sum())
        self._base = self._batch_of(decodes, row)
        longest = self._longest(row.pace[decodes], row.left[decodes])
        if len(decodes) and not self._go(jobs, at, row, first):
            first = []

        def named(places: Iterable[int]) -> list[Job]:
            return [jobs[p] for p in places]

        self._decode(self._within(named(decodes[:tight]), plan), running, plan)
        self._prefill(named(first), plan, longest=longest, running=running)
        self._decode(self._within(named(decodes[tight:]), plan), running, plan)
        self._prefill(named(refills), plan, longest=longest)
        if not (len(first) or len(decodes) or len(refills)) or not plan.work:
            last = np.flatnonzero(row.late)
            last = last[np.lexsort((row.alone[last] + row.left[last], ~row.decodes[last]))]
            going, rest = last[row.decodes[last]], last[~row.decodes[last]]
            self._base = self._batch_of(going, row)
            self._decode(self._within(named(going), plan), running, plan)
            self._prefill(named([*first, *refills, *rest, *aside]), plan)
        self._started += [job for job in jobs if job.id in plan.work and self.due[3, job.index] == inf]
        self.mean += (RECENT if self.mean else 1.0) * (float(self._base.max()) - self.mean)

    def _longest(self, pace: Array, left: Array) -> float:
        if not len(pace):
            return inf
        batch = max(self.mean, float(self._base.max()))
        slack = -inf if self._knee else float((pace * left - (left - 1) * batch).min())
        return max(self.pace * float(pace[0]), slack)

    def _go(self, jobs: list[Job], at: Array, row: Row, first: list[int]) -> bool:
        if not self.wait or any(jobs[p].device for p in first):
            return True
        arrival = np.array([jobs[p].arrival for p in first])
        given = self.due[0, at[first]] - arrival
        return bool(((self.now + row.alone[first] - arrival >= self.wait * given) | np.isinf(given)).any())

    def _batch_of(self, decodes: Array, row: Row) -> Array:
        return (self.marginal.busy + self.marginal.any_decode * (len(decodes) > 0))[:, 0] + row.parts[:, decodes].sum(
            axis=1
        )

    def _within(self, jobs: list[Job], plan: Plan) -> list[Job]:
        there = [job for job in jobs if job.index not in self._evicted and job.id not in plan.work]
        return there[: max(0, min(plan.tokens_left, plan.requests_left))]

    def _row(self, at: Array) -> Row:
        device, host, missing, left = self.state[:4, at]
        left = left + self.after[0, at]
        decodes = (missing == 1) & (device + host > 0)
        first_due, end_due, rest, first = self.due[:, at]
        begun = first < inf
        end_due = np.minimum(end_due, np.where(begun, first, first_due) + rest) - self.after[1, at]
        parts = self.marginal.step(Step(device + host, missing, decodes))
        alone = parts.max(axis=0)
        token = float((self.marginal.busy + self.marginal.any_decode + self.marginal.token).max())
        late = self.late[at] | (np.where(begun, first, self.now + alone) > first_due)
        late |= self.now + (left - ~begun) * token > end_due
        self.late[at] = late
        spare = np.where(begun | (first_due == inf), end_due - 2 * left * self.mean * ~begun, first_due)
        return Row(spare, (end_due - self.now) / left, parts, alone, late, begun, decodes & (device > 0), left)

    def _moore_hodgson(self, row: Row, weight: Array) -> tuple[list[int], list[int]]:
        fresh = np.flatnonzero(~row.late & ~row.begun)
        order = fresh[np.argsort(row.due[fresh], kind="stable")].tolist()
        kept, aside, total = list[tuple[float, int]](), set[int](), float(self.now)
        for place in order:
            heappush(kept, (-row.alone[place] / weight[place], place))
            total += row.alone[place] / self.share
            if total > row.due[place]:
                longest = heappop(kept)[1]
                aside.add(longest)
                total -= row.alone[longest] / self.share
        first = sorted((place for _, place in kept), key=(row.due + self.short * row.alone).__getitem__)
        return first, sorted(aside, key=row.alone.__getitem__)


def due_times(job: Job, slo: Slo | None) -> tuple[float, float, float, float]:
    """Return when its first token and end are due, the ticks between them by its TPOT, and no first token."""
    slo = slo or job.slo
    if slo is None:
        return inf, inf, inf, inf
    outputs = sum(job.demand.decode)
    ends = [inf if slo.latency is None else slo.latency]
    ends += [] if slo.normalized_latency is None else [float(slo.normalized_latency * outputs)]
    rest = inf if slo.tpot is None or outputs == 1 else float(slo.tpot * (outputs - 1))
    return job.arrival + (inf if slo.ttft is None else slo.ttft), job.arrival + min(ends), rest, inf
